"""The draft layers that speculation adds, as vLLM builds them.

Source: vLLM 0.33 models/deepseek_mtp.py, qwen3_next_mtp.py, exaone4_5_mtp.py, vllm/models/deepseek_v4, deepseek_v32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kvplan.arch.extras import DRAFT_MODEL, LISTED_DRAFT, UNDRAFTED
from kvplan.arch.layers import Attention, Cache, Compressed, Indexer, Latent, Layer
from kvplan.arch.model import Model
from kvplan.engines.vllm.blocks.built import uniform_window, with_window
from kvplan.engines.vllm.tables.architectures import DRAFT_LIKE_FIRST, DRAFT_UNSTATED, named


def draft_layers(model: Model) -> tuple[Layer, ...]:
    """Layers of the draft model, or of the checkpoint's own draft modules; empty when it has none."""
    stated = model.draft_layers
    if UNDRAFTED in model.traits:
        return ()
    if DRAFT_MODEL in model.traits:
        return stated if LISTED_DRAFT in model.traits else _as_target(model, stated)
    if not stated and model.family.startswith(DRAFT_UNSTATED):
        stated = tuple(_first(model, full=True))
    if stated and named(model, DRAFT_LIKE_FIRST):
        stated = tuple(_first(model, full=False)) * len(stated)
    return tuple(replace(layer, caches=tuple(_built(cache, model) for cache in layer.caches)) for layer in stated)


def _as_target(model: Model, layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """A draft's layers with the target's window: their own counts only where the draft lists their kinds.

    Source: vLLM 0.33 engine/arg_utils.py, cache_config.sliding_window; layers/attention/attention.py; models/llama.py.
    """
    window = uniform_window(model)
    return tuple(with_window(layer, window) for layer in layers)


def _first(model: Model, *, full: bool) -> Iterable[Layer]:
    for layer in model.layers:
        for cache in layer.caches:
            if isinstance(cache, Latent) or (isinstance(cache, Attention) and (not full or cache.cap is None)):
                yield Layer((cache,))
                return


def _built(cache: Cache, model: Model) -> Cache:
    """A compressed layer drafts with its window alone; a sparse latent with an indexer of its own."""
    if isinstance(cache, Compressed):
        return Compressed(cache.heads, cache.dim, cache.window)
    if isinstance(cache, Latent) and cache.topk is not None and cache.indexer is None:
        return replace(cache, indexer=next(iter(_indexers(model)), None))
    return cache


def _indexers(model: Model) -> Iterable[Indexer]:
    for layer in model.layers:
        for cache in layer.caches:
            if isinstance(cache, Latent) and cache.indexer is not None:
                yield cache.indexer
