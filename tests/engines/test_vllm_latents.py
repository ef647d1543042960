"""What releases of vLLM make of latents' formats, read in platforms/cuda.py, models/config.py and v1/attention/backends/mla of 0.9 to 0.33."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import UsageError
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

BF16, PACKED, FP8 = 1152, 656, 576
"""Bytes of a latent of 512 numbers and its rotary key of 64: in 16 bit, packed with scales and the key in 16 bit, in 8 bit."""
KEY = 132
"""Bytes of an indexer's key."""


def started(name: str, gpu: str, release: tuple[int, int, int], asked: str | None, *, tp: int = 8, named: str = ""):
    model = load_model(name)
    model = replace(model, architectures=(named,)) if named else model
    kv = None if asked is None else parse_kv_format(asked)
    return Vllm(release).start(Setup(model, load_gpu(gpu), Parallel(tp=tp), kv, Options(), 8192)).made


@pytest.mark.parametrize(
    ("gpu", "release", "asked", "tp", "row"),
    [
        ("h100", (0, 11, 0), None, 8, PACKED),  # auto, in that release alone
        ("h100", (0, 11, 1), None, 8, BF16),
        ("h100", (0, 17, 1), "fp8", 8, PACKED),
        ("b200", (0, 17, 1), "fp8", 8, PACKED),  # FlashMLA's kernels, the only ones that take it
        ("b200", (0, 18, 0), "fp8", 8, FP8),  # FlashInfer's first for 16 heads a rank
        ("b200", (0, 18, 0), "fp8", 4, PACKED),  # and FlashMLA's for 32
        ("b200", (0, 19, 0), "fp8", 4, FP8),
        ("b200", (0, 33, 0), None, 8, BF16),
    ],
)
def test_sparse_latents(gpu, release, asked, tp, row):
    """DeepSeek-V3.2 has 61 layers, and blocks of 64 tokens."""
    assert started("deepseek-v3.2", gpu, release, asked, tp=tp).stages == (61 * 64 * (row + KEY),)


@pytest.mark.parametrize(("release", "row"), [((0, 18, 0), BF16), ((0, 31, 0), BF16), ((0, 32, 0), FP8)])
def test_auto_is_fp8_for_glm_on_blackwell_since_0_32(release, row):
    made = started("deepseek-v3.2", "b200", release, None, named="GlmMoeDsaForCausalLM")
    assert made.stages == (61 * 64 * (row + KEY),)


def test_fp8_is_packed_for_deepseeks_class_alone_before_0_18():
    with pytest.raises(UsageError) as caught:
        started("deepseek-v3.2", "h100", (0, 17, 1), "fp8", named="GlmMoeDsaForCausalLM")
    assert caught.value.problem.hint == "--kv-dtype fp8_ds_mla"
    made = started("deepseek-v3.2", "h100", (0, 17, 1), "fp8_ds_mla", named="GlmMoeDsaForCausalLM")
    assert made.stages == (61 * 64 * (PACKED + KEY),)


@pytest.mark.parametrize(
    ("gpu", "before", "since"),
    [
        ("l40s", (0, 17, 1), (0, 18, 0)),  # Triton's kernels
        ("mi300x", (0, 17, 1), (0, 18, 0)),
        ("h100", (0, 10, 1), (0, 10, 2)),  # FlashMLA's
        ("b200", (0, 10, 1), (0, 10, 2)),  # CUTLASS's
    ],
)
def test_latents_in_fp8_came_kernel_by_kernel(gpu, before, since):
    with pytest.raises(UsageError):
        started("deepseek-v3", gpu, before, "fp8")
    assert started("deepseek-v3", gpu, since, "fp8").stages[0] % (61 * FP8) == 0
