"""Multi-token-prediction layers that come with a checkpoint: cached only when speculation uses them."""

from __future__ import annotations

from kvplan.arch.layers import Attention, Compressed, Latent, Layer
from kvplan.families.fields import Fields
from kvplan.families.patterns import DRAFT_COUNTS, draft_count


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
