"""Buffers that vLLM's classes allocate as they are built, with room for the tokens of a step: its log counts them as weights.

    bytes = max_num_batched_tokens x what one token has there

Source: vLLM 0.11 to 0.33 model_executor/models and models, whatever they allocate by max_num_batched_tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvplan.arch.layers import Compressed, Latent
from kvplan.arch.model import Model
from kvplan.engines.base import Range, Term
from kvplan.engines.vllm.memory.dimensions import dimensions
from kvplan.engines.vllm.memory.drafting import drafting
from kvplan.engines.vllm.memory.encoder import levels
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.spans import holds

HALF, INDEX = 2, 4
"""Bytes of an activation, and of the number of a key."""

PER_LAYER = {
    "Gemma3nForConditionalGeneration": "0.10.1", "Gemma4ForConditionalGeneration": "0.19.0", "Gemma4UnifiedForConditionalGeneration": "0.23.0",
}  # fmt: skip
"""Classes that keep the embeddings of each layer, and since when. Source: gemma3n_mm.py, gemma4_mm.py, gemma4_unified.py per_layer_embeddings."""


def with_buffers(weights: Term, model: Model, settings: Settings, rules: Rules) -> Term:
    """The weights of the fullest GPU and the buffers beside them."""
    size = buffers(model, settings, rules)
    if not size:
        return weights
    around = weights.bytes
    return replace(
        weights,
        bytes=Range(around.low + size, around.likely + size, around.high + size),
        formula=f"{weights.formula}, {size:,} B of buffers for steps of {settings.tokens:,} tokens",
    )


def buffers(model: Model, settings: Settings, rules: Rules) -> int:
    """Bytes of them; none where the weights aren't known."""
    if model.weights is None:
        return 0
    return settings.tokens * sum(each(model, settings, rules) for each in OF_A_TOKEN)


def _deeper(model: Model, settings: Settings, rules: Rules) -> int:
    """What an encoder of images hands to deeper layers, not built for text alone.

    Source: qwen3_vl.py, qwen3_vl_moe.py, qwen3_omni_moe_thinker.py deepstack_input_embeds.
    """
    del settings, rules
    towers = () if model.weights is None else model.weights.towers
    return levels(towers) * (model.hidden_size or 0) * HALF


def _per_layer(model: Model, settings: Settings, rules: Rules) -> int:
    """Embeddings of each layer's own, of classes that see or hear, whatever is served."""
    del settings
    if model.weights is None or not any(holds(PER_LAYER.get(name, ""), rules.version) for name in classes(model)):
        return 0
    return sum(each.shape[1] * HALF for each in model.weights.first if each.name.endswith("embed_tokens_per_layer"))


def _picked(model: Model, settings: Settings, rules: Rules) -> int:
    """Numbers of the keys that an indexer picks; a model's own draft layers have their own.

    Source: deepseek_v2.py, deepseek_mtp.py, glm4_moe_lite.py, deepseek_v4: topk_indices_buffer.
    """
    del rules
    picked = max((cache.topk or 0 for cache, _ in model.distinct if isinstance(cache, Latent | Compressed)), default=0)
    drafts = settings.drafted > 0 and drafting(model) == "mtp"
    return picked * INDEX * (2 if drafts else 1)


def _streams(model: Model, settings: Settings, rules: Rules) -> int:
    """Streams of hidden states that a draft goes on from, on the last pipeline stage. Source: deepseek_v4 _mtp_hidden_buffer."""
    drafts = settings.drafted > 0 and drafting(model) != "guessed"
    if not model.has(Compressed) or not (drafts or rules.streams_kept):
        return 0
    likely = dimensions(model, settings.parallel).likely
    return likely.streams * likely.hidden * HALF


OF_A_TOKEN: tuple[Callable[[Model, Settings, Rules], int], ...] = (_deeper, _per_layer, _picked, _streams)
"""Bytes of one token in each kind of buffer."""
