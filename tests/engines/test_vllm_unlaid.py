"""Caches that vLLM lays out in a way of their own: no number of blocks is better than a wrong one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.layers import Attention, Cache, Latent
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.traits import INDEXES_HEADS
from kvplan.engines.base import Options, Setup
from kvplan.engines.registry import engine as engine_of
from kvplan.errors import Unsupported
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model


def changed(model: Model, change: dict[str, object]) -> Model:
    def made(cache: Cache) -> Cache:
        if not isinstance(cache, Latent):
            return cache
        if "pool" in change and cache.indexer is not None:
            return replace(cache, indexer=replace(cache.indexer, **change))
        return replace(cache, **change) if "window" in change else cache

    return replace(model, layers=tuple(replace(layer, caches=tuple(map(made, layer.caches))) for layer in model.layers))


def start(model: Model, engine: str = "vllm") -> None:
    engine_of(engine).start(Setup(model, load_gpu("b200"), Parallel(tp=8), parse_kv_format("bf16"), Options(), 4096))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"pool": 4}, "pool the keys of 4 tokens (index_kpool)"), ({"window": 512}, "latents of a window")],
)
def test_rings_and_windows_of_latents_are_refused(change, said):
    """Source: vLLM 0.33 models/glm5next/common/attention.py Glm5NextTailCache; models/dots3_note/nvidia/model.py."""
    model = load_model("glm-5")
    start(model)
    with pytest.raises(Unsupported) as error:
        start(changed(model, change))
    assert said in str(error.value.problem.cause)
    assert "--engine ideal" in str(error.value.problem.hint)
    start(changed(model, change), "ideal")


def test_indexers_beside_ordinary_heads_are_refused():
    """Source: vLLM 0.33 models/qwen4_exp/nvidia/model.py, use_qsa where indexer_n_heads isn't null."""
    model = load_model("qwen3-30b-a3b")
    assert any(isinstance(cache, Attention) for cache, _ in model.distinct)
    with pytest.raises(Unsupported, match="blocks"):
        start(replace(model, traits=(*model.traits, INDEXES_HEADS)))
