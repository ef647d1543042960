"""The longest image or video of a model class: what vLLM's start-up profile runs its encoder on.

How many tokens it has follows from the checkpoint's own processor, which no config states: these are the published ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.architectures import classes, image_prefix
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version


@dataclass(frozen=True, slots=True)
class Item:
    """An image or a video.

    tokens: embeddings that it becomes. patches: of the encoder, to each of them. pieces: it has as many times those tokens
    as max_model_len holds, at most so many. beside: tokens of max_model_len that are left for an image beside them.
    counted: tokens that the budget takes it for, where those are more. frame: patches of one of its frames, where they are
    encoded in pieces; 0 where all are at once. room: bytes that a frame in a piece is taken for, which may have a tenth of
    the memory; 0 where each piece is one frame.
    """

    tokens: int
    patches: int
    pieces: int = 1
    beside: int = 0
    counted: int = 0
    frame: int = 0
    room: int = 0

    def fitting(self, length: int) -> int:
        """Tokens of the longest that a request of so many tokens can hold."""
        return self.tokens * max(1, min(self.pieces, (length - self.beside) // self.tokens))

    def at_once(self, patches: int, memory: int) -> int:
        """Patches, of so many, that the encoder of a GPU with so many bytes runs on at once."""
        if not self.frame:
            return patches
        frames = max(1, memory // MEMORY_SHARE // self.room) if self.room else 1
        return min(patches, frames * self.frame)


MEMORY_SHARE = 10
"""Of the memory, what a piece of frames may have is one part in so many. Source: models/gemma4_mm.py _encoder_chunk."""
UNKNOWN = Item(16_384, 4)
"""What may be expected of a class that isn't listed: the longest image that published processors make."""

_SIDES = 16_384
"""Patches of 28 or 32 pixels in 12,845,056 or 16,777,216 pixels."""
_QWEN2 = (
    ((0, 8, 0), Item(_SIDES, 4, 8, beside=_SIDES)),
    ((0, 9, 0), Item(_SIDES, 4, 8)),
    ((0, 11, 0), Item(_SIDES, 4, 7)),
)
"""A video's frames go in pairs as large as an image, 16 of them and later 14. At first an image is left room for: logs print 98,304
tokens at a length of 128,000, one of 0.23 prints 114,688. Source: models/qwen2_vl.py _MAX_FRAMES_PER_VIDEO,
get_num_frames_with_most_features of 0.8.5, 0.10.2 and 0.33; between the first two the longer is taken."""
_QWEN3 = (((0, 11, 0), Item(12_288, 4, counted=153_600)), ((0, 13, 0), Item(_SIDES, 4)))
"""Up to 0.12 a video counts for 12.5 times its tokens. Source: models/qwen3_vl.py get_max_video_tokens; vllm-project/vllm#27992."""
_GEMMA3 = (((0, 8, 0), Item(256, 16, counted=260)),)
"""64 x 64 patches in 256 tokens, with four of text around them. Source: models/gemma3_mm.py; logs of 31 and 63 items."""
_FRAME = 70 * 9
"""Patches of a frame of Gemma 4's."""
_GEMMA4 = (
    ((0, 18, 0), Item(32 * 70, 9, counted=32 * 78, frame=_FRAME)),
    ((0, 23, 0), Item(32 * 70, 9, counted=32 * 78, frame=_FRAME, room=_FRAME * 4 * 10_240 * 8)),
)
"""32 frames of 70 tokens, with eight of text around each. Pieces are small for the room of positions written out as ones and zeros, of
which three logs of 0.23 to 0.26 show none. Source: models/gemma4_mm.py of 0.20.1, 0.23 and 0.33: get_mm_max_tokens_per_item,
_process_video_input, _encoder_chunk for 10,240 positions."""
_MISTRAL3 = (((0, 8, 0), Item(3_025, 4, counted=3_080)),)
"""55 x 55 merged patches, and a break after each row. Source: models/pixtral.py PixtralHFEncoderInfo, of 1,540 pixels."""
_LLAMA4 = (((0, 8, 0), Item(2_448, 4)),)
"""17 tiles of 144 tokens. Source: models/mllama4.py Mllama4ProcessingInfo."""
_GLM4V = (((0, 8, 0), Item(30_000, 4, counted=30_970)),)
"""A video of 30,000 merged patches in all, and times between its frames. Source: models/glm4_1v.py Glm4vProcessingInfo; a log of GLM-4.5V."""
_GLM5 = (((0, 30, 0), Item(30_000, 4, counted=32_242)),)
"""The same with longer times. Source: models/glm4_1v.py; a log of GLM-5-Next."""

ITEMS: Mapping[str, tuple[tuple[Version, Item], ...]] = {
    "Qwen2VLForConditionalGeneration": _QWEN2,
    "Qwen2_5_VLForConditionalGeneration": _QWEN2,
    "Qwen3VLForConditionalGeneration": _QWEN3,
    "Qwen3VLMoeForConditionalGeneration": _QWEN3,
    "Qwen3_5ForConditionalGeneration": _QWEN3,
    "Qwen3_5MoeForConditionalGeneration": _QWEN3,
    "Gemma3ForConditionalGeneration": _GEMMA3,
    "Gemma4ForConditionalGeneration": _GEMMA4,
    "Gemma4UnifiedForConditionalGeneration": _GEMMA4,
    "Mistral3ForConditionalGeneration": _MISTRAL3,
    "Llama4ForConditionalGeneration": _LLAMA4,
    "Glm4vForConditionalGeneration": _GLM4V,
    "Glm4vMoeForConditionalGeneration": _GLM4V,
    "Glm5NextForConditionalGeneration": _GLM5,
}
"""By class, each with the release from which it holds."""


def longest(model: Model, version: Version) -> Item | None:
    """Of the first class that is listed; None where none is."""
    for name in classes(model):
        held = [item for since, item in ITEMS.get(name, ()) if since <= version]
        if held:
            return held[-1]
    return None


def longest_whole(model: Model, rules: Rules) -> int:
    """Tokens of one that a step must hold whole, as image tokens attend to each other both ways; 0 where none has to."""
    item = longest(model, rules.version) if image_prefix(model, rules) else None
    return 0 if item is None else item.counted or item.tokens
