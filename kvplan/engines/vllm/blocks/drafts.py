"""The draft layers that speculation adds, as vLLM builds them.

Source: vLLM 0.33 models/deepseek_mtp.py, qwen3_next_mtp.py, exaone4_5_mtp.py, vllm/models/deepseek_v4, deepseek_v32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kvplan.arch.layers import Attention, Cache, Compressed, Indexer, Latent, Layer
from kvplan.arch.model import Model
from kvplan.arch.traits import DRAFTS_ALONE, NO_DRAFTS, UNDRAFTED
from kvplan.engines.vllm.blocks.built import as_served, cache_window
from kvplan.engines.vllm.tables.architectures import DRAFT_BY_ONE, DRAFT_LIKE_FIRST, DRAFT_UNSTATED, named
from kvplan.engines.vllm.tables.rules import Rules


def draft_layers(model: Model, rules: Rules) -> tuple[Layer, ...]:
    """Layers of the draft model, or of the checkpoint's own draft modules; empty when it has none.

    A draft model is built with the target's settings for the cache. Source: vLLM 0.33 v1/spec_decode/draft_model.py.
    """
    if model.drafter is not None:
        return as_served(model.drafter, rules, cache_window(model, rules)).layers
    stated = own_layers(model)
    return tuple(replace(layer, caches=tuple(_built(cache, model) for cache in layer.caches)) for layer in stated)


def as_drafter(draft: Model, method: str) -> Model:
    """A draft model as the class that a method of speculation loads it as: heads are called by their target's class.

    Source: vLLM 0.11 and 0.33 transformers_utils/configs/eagle.py EAGLEConfig.
    """
    if method == "eagle":
        names = (name if name.startswith("Eagle") else f"Eagle{name}" for name in draft.architectures)
    elif method == "eagle3":
        names = (
            name if name.startswith("Eagle3") or name.endswith("Eagle3") else f"Eagle3{name}"
            for name in draft.architectures
        )  # fmt: skip
    else:
        return replace(draft, traits=(*draft.traits, DRAFTS_ALONE))
    return replace(draft, architectures=tuple(names))


def has_drafts(model: Model) -> bool:
    """Whether anything drafts for the model."""
    return bool(model.drafter or own_layers(model))


def own_layers(model: Model) -> tuple[Layer, ...]:
    """Layers that come with the checkpoint to draft with, as its config has them."""
    stated = model.draft_layers
    if UNDRAFTED in model.traits:
        return ()
    if named(model, DRAFT_BY_ONE):
        stated = stated[:1]
    if NO_DRAFTS not in model.traits and not stated and model.family.startswith(DRAFT_UNSTATED):
        stated = tuple(_first(model, full=True))
    if stated and named(model, DRAFT_LIKE_FIRST):
        stated = tuple(_first(model, full=False)) * len(stated)
    return stated


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
