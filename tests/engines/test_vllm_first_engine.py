"""Which starts vLLM 0.8 to 0.10 leave to their engine V0, read in engine/arg_utils.py _is_v1_supported_oracle of each release."""

from __future__ import annotations

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model


@pytest.mark.parametrize(
    ("gpu", "release", "kv", "parallel", "first"),
    [
        ("h100", (0, 8, 1), "fp8", Parallel(), True),
        ("h100", (0, 8, 2), "fp8", Parallel(), False),
        ("l40s", (0, 8, 5), "fp8", Parallel(), True),
        ("l40s", (0, 10, 2), "fp8", Parallel(), True),
        ("l40s", (0, 11, 1), "fp8", Parallel(), False),
        ("l40s", (0, 10, 2), None, Parallel(), False),
        ("b200", (0, 9, 2), "fp8", Parallel(), True),
        ("b200", (0, 10, 0), "fp8", Parallel(), False),
        ("t4", (0, 10, 1), None, Parallel(), True),
        ("t4", (0, 10, 2), None, Parallel(), False),
        ("mi300x", (0, 8, 5), None, Parallel(), True),
        ("mi300x", (0, 9, 0), "fp8", Parallel(), False),
        ("h100", (0, 8, 1), None, Parallel(pp=2), True),
        ("h100", (0, 8, 3), None, Parallel(pp=2), False),
    ],
)
def test_v0_serves(gpu, release, kv, parallel, first):
    asked = None if kv is None else parse_kv_format(kv)
    started = Vllm(release).start(Setup(load_model("llama-3-8b"), load_gpu(gpu), parallel, asked, Options(), 4096))
    assert any("engine V0" in text for text in started.cautions()) is first
