"""Which layers of a checkpoint with several models are the language model's: those that match the config."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kvplan.arch.weights import Block, Weights
from kvplan.sources.checkpoints.modules import key_of
from kvplan.sources.checkpoints.pieces import WORDS, Piece

Layered = Mapping[str, Sequence[tuple[int, Piece]]]
"""Tensors of layers with their layer's number, by the part of the name before it: `model.layers`."""

TOWER = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|audio\w*|vit|vpm|resampler|aligner|connector|\w*projector|mlp1|embed_vision|embed_audio"
    r"|patch_merge_mlp)\.|^(?:v|mm|a)\."
)
"""Names of parts that process images and sound. The last ones are llama.cpp's."""
_ENCODER = re.compile(r"(?:^|\.)\w*encoder\w*\.")
_TEXT = re.compile(r"language_model|text_model|llm")


def language_stem(found: Layered, weights: Weights) -> str | None:
    """The name before the numbers of the layers that the config describes; None if no name has numbered layers.

    Encoders are considered next to last, because an encoder's layers have the shapes of its decoder's; towers come
    last.
    """
    least = min(map(_unlikely, found), default=0)
    left = [stem for stem in found if _unlikely(stem) == least]
    if len(left) < 2:
        return left[0] if left else None
    wanted = {id(block): _Wanted(block) for block in weights.layers}
    blocks = [wanted[id(block)] for block in weights.layers]
    return max(left, key=lambda stem: _likeness(stem, found[stem], blocks))


def _unlikely(stem: str) -> int:
    return 2 if TOWER.search(f"{stem}.") else 1 if _ENCODER.search(f"{stem}.") else 0


class _Wanted:
    """Shapes and modules of a layer's matrices."""

    def __init__(self, block: Block) -> None:
        matrices = [weight for weight in block if len(weight.shape) > 1]
        self.shapes = {tuple(sorted(shape)) for weight in matrices for shape in (weight.shape, (weight.copies, *weight.shape))}  # fmt: skip
        self.keys = {key_of(weight.name) for weight in matrices}

    def has(self, piece: Piece) -> bool:
        """Whether a matrix has a shape that the config describes; a packed one, whether it has a module's name."""
        if len(piece.tensor.shape) < 2 or not piece.has_elements:
            return False
        if piece.tensor.dtype in WORDS:
            return not self.keys.isdisjoint(piece.module.keys)
        return tuple(sorted(piece.tensor.shape)) in self.shapes


def _likeness(stem: str, found: Iterable[tuple[int, Piece]], blocks: Sequence[_Wanted]) -> tuple[int, bool, int]:
    """Number of matrices that match the config's layer of that number; whether the name says text; bytes."""
    held = tuple(found)
    matching = sum(blocks[number].has(piece) for number, piece in held if number < len(blocks))
    return matching, _TEXT.search(stem) is not None, sum(piece.tensor.bytes for _, piece in held)
