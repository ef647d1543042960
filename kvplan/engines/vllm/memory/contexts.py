"""What latents of earlier tokens are expanded to while a prompt is read: the start-up profile makes that room in every layer.

Source: vLLM 0.11 to 0.14 v1/attention/backends/mla/common.py, 0.15 to 0.33 layers/attention/mla_attention.py:
determine_chunked_prefill_workspace_size and the forward without metadata.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.arch.layers import Latent
from kvplan.arch.model import Model
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.rules import Rules

HALF = 2
"""Bytes of an activation."""
LENGTHS, BLOCKS, MOST = 8, 4, 64 * 1024
"""Tokens expanded at once: so many lengths of a request, so many blocks of each sequence, and no more than that."""
UNKNOWN = 16
"""Tokens of a block that nobody has settled. Source: config/cache.py DEFAULT_BLOCK_SIZE."""


def contexts(model: Model, hidden: int, settings: Settings, rules: Rules) -> int:
    """Bytes of one layer: the room, queries and outputs beside it, and hidden states before it; 0 without such layers."""
    tokens, rows = settings.tokens, _rows(settings, rules)
    return max(
        (
            HALF * (rows * heads * wide + tokens * (heads * (wide + rope) + 2 * hidden))
            for heads, wide, rope in _expanded(model, settings.parallel.tp, rules)
        ),
        default=0,
    )


def _expanded(model: Model, ranks: int, rules: Rules) -> Iterator[tuple[int, int, int]]:
    """Of each such layer a rank's heads, and the elements of one that tokens are expanded to and that turn beside it."""
    for cache, _ in model.distinct:
        if not isinstance(cache, Latent) or cache.heads is None or cache.nope_dim is None or cache.v_dim is None:
            continue
        if rules.contexts == "all" or (rules.contexts == "dense" and cache.topk is None):
            yield -(-cache.heads // ranks), cache.nope_dim + cache.v_dim, cache.rope_dim


def _rows(settings: Settings, rules: Rules) -> int:
    """Tokens that are expanded at once."""
    block = settings.block or UNKNOWN
    rows = min(max(LENGTHS * settings.length, BLOCKS * settings.sequences * block), MOST)
    return max(rows, settings.sequences * block) if rules.contexts_by_block else -(-rows // block) * block
