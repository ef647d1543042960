"""A model as vLLM's own classes build it, where they keep other caches than the model was published with."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from kvplan.arch.layers import Attention, Cache, Indexer, Latent, Layer, Recurrent
from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.architectures import (
    ALTERNATES,
    EXPANDED_LATENT,
    ONE_WINDOW,
    PAGED_STREAMS,
    SHARES_CACHE,
    named,
    wider_window,
)
from kvplan.errors import MissingField

PAGED = "convolution in pages"
"""Law of convolutions whose last inputs are kept as windows are."""


def is_state(cache: Cache) -> TypeGuard[Recurrent]:
    """Whether a cache is kept as one state for each request, and not in pages of tokens."""
    return isinstance(cache, Recurrent) and cache.law != PAGED


def as_served(model: Model) -> Model:
    """The model as vLLM's own classes build it: wider windows, latents cached as heads, caches not shared.

    Raises: MissingField for latents whose heads nobody states.
    """
    model = _windows(model)
    streams, indexed = named(model, PAGED_STREAMS), _shared_indexer(model)
    extra, expanded = wider_window(model), named(model, EXPANDED_LATENT)
    shared = any(layer.shares_with is not None for layer in model.layers)
    if shared and not any(name.startswith(SHARES_CACHE) for name in model.architectures):
        model = replace(model, layers=tuple(_own_cache(model, layer) for layer in model.layers))
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
                    cause=f"vLLM caches the heads that {model.architectures[0]} expands its latent to",
                )
            dim = cache.nope_dim + cache.rope_dim
            return Attention(cache.heads, cache.heads, dim, dim)
        return cache

    layers = tuple(replace(layer, caches=tuple(served(cache) for cache in layer.caches)) for layer in model.layers)
    return replace(model, layers=layers)


def _windows(model: Model) -> Model:
    """Windows where the class has them, whatever the config's list of layers says."""
    if named(model, ALTERNATES):
        return _alternating(model)
    if named(model, ONE_WINDOW) and uniform_window(model) is None:
        return replace(model, layers=tuple(with_window(layer, None) for layer in model.layers))
    return model


def uniform_window(model: Model) -> int | None:
    """The window that all of a model's attention layers have; None where there is no such one."""
    windows = {cache.window for cache, _ in model.distinct if isinstance(cache, Attention)}
    return windows.pop() if len(windows) == 1 else None


def with_window(layer: Layer, window: int | None) -> Layer:
    """A layer whose attention has this window, or none."""
    caches = (replace(cache, window=window) if isinstance(cache, Attention) else cache for cache in layer.caches)
    return replace(layer, caches=tuple(caches))


def _shared_indexer(model: Model) -> Indexer | None:
    """The indexer that every sparse latent has here though the config lets some reuse an earlier layer's choice."""
    if "listed_indexers" not in model.traits:
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


def _own_cache(model: Model, layer: Layer) -> Layer:
    while layer.shares_with is not None:
        layer = model.layers[layer.shares_with]
    return layer
