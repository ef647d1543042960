"""How much more than counted weights may take, by the kind of what couldn't be counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import UNSURE_HEAD
from kvplan.engines.base import Options, Setup
from kvplan.engines.registry import engine
from kvplan.engines.vllm.memory.weights import weights
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

H100, ONE, PLAIN = load_gpu("h100"), Parallel(), Options()
KERNELS = 0.006
"""Of 16 bit: docs/accuracy.md."""


def share(model, missing: tuple[str, ...]) -> float:
    """How much more than counted, without what kernels make of the rest."""
    found = weights(replace(model, weights=replace(model.weights, missing=missing)), H100, ONE, PLAIN).bytes
    return found.high / found.likely - 1 - KERNELS


def test_kinds_of_missing_parts():
    model = load_model("llama-3-8b")
    tower = 12e9 / model.weights.bytes
    assert share(model, ()) == pytest.approx(0, abs=1e-4)
    assert share(model, (UNSURE_HEAD,)) == pytest.approx(0, abs=1e-4)  # it is counted
    assert share(model, ("rwkv layers",)) == pytest.approx(0.3, abs=1e-3)
    assert share(model, ("vision tower (siglip)",)) == pytest.approx(min(0.3, tower), abs=1e-3)
    assert share(model, ("vision tower (siglip)", "rwkv layers")) == pytest.approx(0.3, abs=1e-3)
    assert share(model, (UNSURE_HEAD, "rwkv layers")) == pytest.approx(0.3, abs=1e-3)
    large = load_model("llama-3.1-405b")
    assert share(large, ("audio tower (x)", "projector")) == pytest.approx(24e9 / large.weights.bytes, abs=1e-3)


@pytest.mark.parametrize("name", ["vllm", "ideal"])
def test_rounding_is_all_that_a_rounded_count_hides(tmp_path: Path, name: str):
    """8.03B are 16.06 GB in 16 bit, 10 MB more or less; vLLM's kernels may add 0.6 % to that."""
    path = tmp_path / "m.yaml"
    path.write_text("kvplan: 1\nname: m\nlayers: 32\nkv_heads: 8\nhead_dim: 128\nparameters: 8.03B\n")
    found = engine(name).start(Setup(load_model(str(path)), H100, ONE, None, PLAIN, 8192)).budget().weights.bytes
    kernels = 0.006 * 16.06e9 if name == "vllm" else 0
    assert found.low == pytest.approx(16.05e9, abs=1e4)
    assert found.likely == 16_060_000_000
    assert found.high == pytest.approx(16.07e9 + kernels, abs=1e5)
