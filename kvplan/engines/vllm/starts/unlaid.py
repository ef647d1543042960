"""Caches whose place in vLLM's blocks kvplan doesn't know: it says so instead of planning them like others.

Source: vLLM 0.33 v1/kv_cache_interface.py CircularBufferSpec, models/glm5next/common/attention.py Glm5NextTailCache,
models/qwen4_exp/common/qsa_cache.py; models/dots3_note/nvidia/model.py Dots3NotePaddedMLAAttention.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.arch.layers import Attention, Latent
from kvplan.arch.model import Model
from kvplan.arch.traits import INDEXES_HEADS
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import Unsupported


def check(model: Model, rules: Rules) -> None:
    """Nothing, if every layer's cache has its place in the blocks.

    Raises: Unsupported.
    """
    cause = next(_unlaid(model), None)
    if cause is not None:
        raise Unsupported(
            f"kvplan doesn't know the blocks that vLLM {text(rules.version)} gives {model.origin.id}",
            cause=cause,
            hint="--engine ideal, which counts what its layers keep without blocks",
        )


def _unlaid(model: Model) -> Iterator[str]:
    if INDEXES_HEADS in model.traits:
        yield "its indexers (indexer_n_heads) keep keys of groups of tokens, and a ring for the group that isn't full, beside ordinary heads"
    for cache, _ in model.distinct:
        if isinstance(cache, Attention | Latent) and cache.indexer is not None and cache.indexer.pool > 1:
            yield f"its indexers pool the keys of {cache.indexer.pool} tokens (index_kpool) and keep a ring for the pool that isn't full"
        if isinstance(cache, Latent) and cache.window is not None:
            yield "some layers keep latents of a window, with which vLLM pads those of the other layers"
