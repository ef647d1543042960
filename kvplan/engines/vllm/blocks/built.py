"""A model as vLLM's own classes build it, where they keep other caches than the model was published with."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from kvplan.arch.layers import Attention, Cache, Indexer, Latent, Recurrent
from kvplan.arch.model import Model, map_caches
from kvplan.arch.traits import DENSE_UNLISTED, LISTED_INDEXERS
from kvplan.engines.vllm.tables.architectures import (
    ALTERNATES,
    DENSE_BY_SILENCE,
    LISTS_INDEXERS,
    PAGED_STREAMS,
    SHARES_CACHE,
    classes,
    named,
    wider_window,
)
from kvplan.engines.vllm.tables.language import own_windows, unsets_window
from kvplan.engines.vllm.tables.latents import expands
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.errors import MissingField

PAGED = "convolution in pages"
"""Law of convolutions whose last inputs are kept as windows are."""


def is_state(cache: Cache) -> TypeGuard[Recurrent]:
    """Whether a cache is kept as one state for each request, and not in pages of tokens."""
    return isinstance(cache, Recurrent) and cache.law != PAGED


def as_served(model: Model, rules: Rules, window: int | None) -> Model:
    """The model as vLLM's own classes build it: windows, latents cached as heads, caches not shared.

    window: of the cache's settings, which are the target's where the model drafts.

    Raises: MissingField for latents whose heads nobody states.
    """
    model = _undirected(_windows(model, rules, window))
    streams, indexed = named(model, PAGED_STREAMS), _shared_indexer(model, rules)
    extra, expanded = wider_window(model, rules.version), expands(model, rules.version)
    shared = any(layer.shares_with is not None for layer in model.layers)
    if shared and not any(name.startswith(SHARES_CACHE) for name in classes(model)):
        model = replace(model, layers=tuple(model.holder(layer) for layer in model.layers))
    if not extra and not expanded and not streams and indexed is None:
        return model

    def served(cache: Cache) -> Cache:
        if isinstance(cache, Attention) and cache.window is not None:
            return replace(cache, window=cache.window + extra)
        if isinstance(cache, Recurrent) and streams:
            return replace(cache, law=PAGED)
        if isinstance(cache, Latent) and cache.topk is not None and cache.indexer is None and indexed is not None:
            return replace(cache, indexer=indexed)
        if isinstance(cache, Latent) and expanded:
            if cache.heads is None or cache.nope_dim is None:
                raise MissingField(
                    "num_attention_heads" if cache.heads is None else "qk_nope_head_dim",
                    cause=f"vLLM caches the heads that {classes(model)[0]} expands its latent to",
                )
            dim = cache.nope_dim + cache.rope_dim
            return Attention(cache.heads, cache.heads, dim, dim)
        return cache

    return map_caches(model, served)


def _undirected(model: Model) -> Model:
    """Latents without indexers, where the class takes a config that lists no layers for one of dense attention."""
    if DENSE_UNLISTED not in model.traits or not named(model, DENSE_BY_SILENCE):
        return model
    return map_caches(
        model, lambda cache: replace(cache, indexer=None, topk=None) if isinstance(cache, Latent) else cache
    )


def _windows(model: Model, rules: Rules, window: int | None) -> Model:
    """Windows where the class has them: its own where something tells layers apart, and the cache's on all layers without one.

    Source: vLLM 0.33 layers/attention/attention.py, per_layer_sliding_window.
    """
    model = _alternating(model) if named(model, ALTERNATES) else model
    if model.windows is None:
        return model
    told = bool(model.windows.kinds) or len(_windows_of(model)) > 1
    own, unset = told and own_windows(model, rules.version), unsets_window(model, rules.version)

    def built(cache: Cache) -> Cache:
        if not isinstance(cache, Attention) or cache.chunk is not None or (own and (unset or cache.window is not None)):
            return cache
        return cache if cache.window == window else replace(cache, window=window)

    return map_caches(model, built)


def cache_window(model: Model, rules: Rules) -> int | None:
    """The window of the cache's settings, which layers have that get none from their class.

    A class's word that the config leaves out takes nothing away from layers until 0.26: such configs are often parts of what
    was published, and the whole may say null.

    Source: vLLM engine/arg_utils.py, cache_config.sliding_window.
    """
    said, windows = model.windows, _windows_of(model)
    if said is None:
        return windows.pop() if len(windows) == 1 else None
    if said.silent and rules.cache_window != "all listed" and windows != {said.tokens}:
        return None
    absent = {
        "stated": said.mixed and own_windows(model, rules.version),
        "unless interleaved": {*said.kinds} >= INTERLEAVED,
        "all listed": not {*said.kinds} <= {"sliding_attention"},
    }
    return None if absent[rules.cache_window] else said.tokens


def _windows_of(model: Model) -> set[int | None]:
    return {cache.window for cache, _ in model.distinct if isinstance(cache, Attention)}


INTERLEAVED = frozenset({"full_attention", "sliding_attention"})


def _shared_indexer(model: Model, rules: Rules) -> Indexer | None:
    """The indexer that every sparse latent has here though the config lets some reuse an earlier layer's choice."""
    skipped = rules.indexers_skipped and LISTED_INDEXERS not in model.traits
    if skipped or named(model, LISTS_INDEXERS):
        return None
    caches = (cache for cache, _ in model.distinct if isinstance(cache, Latent))
    return next((cache.indexer for cache in caches if cache.indexer is not None), None)


def _alternating(model: Model) -> Model:
    """Windows on every other layer from the first, whatever the config's list of layers says."""
    kinds = [
        next((layer for layer in model.layers if (layer.caches[0].kind == "sliding") is windowed), None)
        for windowed in (True, False)
    ]
    first, second = kinds
    if first is None or second is None:
        return model
    return replace(model, layers=tuple(second if index % 2 else first for index in range(len(model.layers))))
