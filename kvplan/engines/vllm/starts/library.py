"""Models as the Transformers library's code runs them for vLLM: with keys and values, and nothing else that they keep.

Source: vLLM 0.33 models/transformers/base.py create_attention_instances; asked of it with Zaya.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.layers import Attention, Cache, Layer, Recurrent
from kvplan.engines.base import Setup
from kvplan.engines.vllm.tables.architectures import named
from kvplan.engines.vllm.tables.library import by_library
from kvplan.engines.vllm.tables.unregistered import RUNS
from kvplan.engines.vllm.tables.versions import Version

WINDOWED = "sliding_attention"
"""The only name in layer_types that means a window to it."""


def served(setup: Setup, release: Version) -> Setup:
    """The setup with the model that is built: no state beside a layer's attention, and no window under another name."""
    model = setup.model
    if not named(model, tuple(RUNS)) or not by_library(model, release):
        return setup
    listed = model.windows.kinds if model.windows is not None else ()
    whole = bool(listed) and WINDOWED not in listed
    return replace(setup, model=replace(model, layers=tuple(_built(layer, whole=whole) for layer in model.layers)))


def _built(layer: Layer, *, whole: bool) -> Layer:
    kept = tuple(_attention(cache, whole=whole) for cache in layer.caches if not isinstance(cache, Recurrent))
    return layer if not kept or kept == layer.caches else replace(layer, caches=kept)


def _attention(cache: Cache, *, whole: bool) -> Cache:
    return replace(cache, window=None) if whole and isinstance(cache, Attention) else cache
