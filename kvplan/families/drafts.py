"""Layers that draft: those that come with a checkpoint, cached only when speculation uses them, and those that keep nothing."""

from __future__ import annotations

from kvplan.arch.layers import Attention, Compressed, Latent, Layer
from kvplan.families.counts import DRAFT_COUNTS, draft_count
from kvplan.families.fields import Fields


def draft_layers(fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """One layer of the stack's own attention for each prediction layer.

    Source: vLLM 0.33 models/deepseek_mtp.py, qwen3_next_mtp.py, glm4_moe_mtp.py: each module is an ordinary decoder layer.

    Raises: BadField.
    """
    count = draft_count(fields)
    if not count and not fields.has(*DRAFT_COUNTS):
        count = UNSTATED.get(fields.model_type, 0)
    if not count:
        return ()
    for layer in reversed(layers):
        for cache in layer.caches:
            if isinstance(cache, Latent | Compressed) or (isinstance(cache, Attention) and cache.cap is None):
                return (Layer((cache,)),) * count
    return ()


UNSTATED = {"qwen3_next": 1, "exaone4_5_text": 1}
"""Types whose published checkpoints have prediction layers (mtp.*) that their configs don't state."""


READS_TARGET = frozenset(("gemma4_assistant", "gemma4_unified_assistant"))
"""Wholes that draft for another model by reading its cache, in every layer, whatever num_kv_shared_layers says.

Source: transformers 5.23 models/gemma4_assistant; vLLM 0.33 models/gemma4_mtp.py, config/speculative.py.
"""


def kept(fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """What the layers keep themselves: nothing, and a note that says so, where they read another model's cache."""
    if not reads_target(fields):
        return layers
    fields.note("Every layer reads the cache of the model that it drafts for: it serves as --draft, not alone.")
    return (Layer(),) * len(layers)


def reads_target(fields: Fields) -> bool:
    """Whether every layer reads the cache of the model that it drafts for, and keeps none of its own."""
    types = (node.get("model_type") for node in fields.parents)
    return any(isinstance(each, str) and each in READS_TARGET for each in types)
