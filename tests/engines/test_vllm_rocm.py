"""What vLLM's attention backends on AMD's GPUs take, read in platforms/rocm.py and v1/attention/backends of 0.19 to 0.33."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kvplan
from kvplan.api.question import FitQuestion
from kvplan.arch.formats import parse_kv_format
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks.backends import Need, capability, pick, platform
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import NotServed, UsageError
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

SINKS, WIDE, IMAGES = Need(64, "16 bit", sinks=True), Need(512, "16 bit"), Need(256, "fp8", image_prefix=True)
MIXED = Need(512, "16 bit", mixed_dims=True)
CONNECTED = Need(128, "16 bit", connected=True)


def picked(gpu: str, table: str, need: Need) -> tuple[str, tuple[int, ...]]:
    device = load_gpu(gpu)
    found = pick(table, need, capability(device), None, platform(device))
    return found.name, found.sizes


@pytest.mark.parametrize(
    ("gpu", "table", "need", "backend"),
    [
        ("mi300x", "attention", Need(128, "16 bit"), ("ROCM_ATTN", (16,))),
        ("rx-7900-xtx", "attention", Need(128, "fp8_e5m2"), ("ROCM_ATTN", (16,))),
        (
            "mi300x",
            "attention",
            Need(128, "16 bit", release=(0, 18, 0)),
            ("TRITON_ATTN", (16,)),
        ),  # Triton's, by default
        ("mi300x", "attention", SINKS, ("ROCM_AITER_UNIFIED_ATTN", (16,))),  # supports_sink
        ("mi355x", "attention", WIDE, ("ROCM_AITER_UNIFIED_ATTN", (16,))),  # ROCM_ATTN's largest head is 256
        ("mi355x", "attention", MIXED, ("TRITON_ATTN", (16,))),  # Gemma4Config, without FlashAttention 4
        ("mi250x", "attention", SINKS, ("TRITON_ATTN", (16,))),  # AITER needs CDNA 3
        ("mi300x", "attention", IMAGES, ("TRITON_ATTN", (16,))),  # supports_mm_prefix
        # asked for AITER
        ("mi300x", "attention", replace(SINKS, aiter=True), ("ROCM_AITER_FA", (16,))),
        ("r9700", "attention", Need(128, "16 bit", aiter=True), ("ROCM_AITER_UNIFIED_ATTN", (16,))),
        ("mi300x", "latent", Need(576, "fp8_e5m2", aiter=True), ("ROCM_AITER_MLA", (1,))),
        # supports_kv_connector
        ("mi300x", "attention", CONNECTED, ("ROCM_AITER_UNIFIED_ATTN", (16,))),
        ("mi300x", "attention", replace(CONNECTED, release=(0, 22, 1)), ("ROCM_ATTN", (16,))),
        ("mi300x", "latent", Need(576, "fp8"), ("TRITON_MLA", (16,))),
        ("mi300x", "sparse latent", Need(576, "fp8"), ("ROCM_AITER_MLA_SPARSE", (1, 16))),
        ("mi300x", "indexer", Need(576, "index"), ("DEEPSEEK_V32_INDEXER", (1, 16))),
    ],
)
def test_the_first_backend_that_takes_a_layer(gpu, table, need, backend):
    assert picked(gpu, table, need) == backend


@pytest.mark.parametrize(
    ("gpu", "table", "need"),
    [
        ("mi300x", "attention", Need(128, "nvfp4")),
        ("mi300x", "sparse latent", Need(576, "fp8_ds_mla")),
        ("mi300x", "sparse latent", Need(576, "nvfp4_ds_mla")),
        ("mi300x", "latent", Need(576, "fp8_e5m2")),  # triton_mla.py
        ("mi300x", "latent", Need(576, "fp8", release=(0, 17, 1))),
        ("mi300x", "sparse latent", Need(576, "fp8", release=(0, 20, 2))),
        ("mi300x", "uneven attention", Need(192, "fp8", release=(0, 31, 0))),
        ("mi250x", "sparse latent", Need(576, "16 bit")),
        ("mi300x", "sparse latent", Need(576, "16 bit", release=(0, 17, 1))),  # asserts blocks of one token
        ("mi300x", "attention", Need(128, "16 bit", dcp=True)),  # no can_return_lse_for_decode
    ],
)
def test_formats_that_no_backend_of_rocm_takes(gpu, table, need):
    with pytest.raises(UsageError) as caught:
        picked(gpu, table, need)
    assert caught.value.problem.cause == "none of its backends takes both on this GPU under ROCm"


@pytest.mark.parametrize(
    ("table", "release", "backend"),
    [
        ("latent", (0, 10, 0), "ROCM_AITER_MLA"),
        ("sparse latent", (0, 17, 1), "ROCM_AITER_MLA_SPARSE"),
        ("sparse latent", (0, 33, 0), "ROCM_AITER_MLA_SPARSE"),
    ],
)
def test_blocks_of_one_token_that_are_asked_for(table, release, backend):
    device = load_gpu("mi300x")
    need = Need(576, "16 bit", release=release)
    assert pick(table, need, capability(device), 1, platform(device)).name == backend
    with pytest.raises(UsageError):
        pick("latent", need, capability(device), 8, platform(device))


@pytest.mark.parametrize(
    ("name", "gpu", "block"),
    [
        ("llama-3-8b", "mi300x", 16),
        ("gpt-oss-20b", "mi300x", 64),  # get_preferred_block_size of a model's only backend
        ("gpt-oss-20b", "rx-7900-xtx", 16),
        ("deepseek-v3", "mi300x", 16),
        ("deepseek-v3.2", "mi300x", 16),
        ("qwen3-next-80b", "mi300x", 272),  # FlashInfer, whose 320 it would be, is CUDA's
    ],
)
def test_blocks(name, gpu, block):
    """Tokens of a block. Qwen3-Next at TP 4: a state of 274,432 B is held by 17 x 16 tokens of 1,024 B."""
    setup = Setup(load_model(name), load_gpu(gpu), Parallel(tp=4), parse_kv_format("bf16"), Options(), 8192)
    assert Vllm((0, 33, 0)).start(setup).capacity(40 * 2**30).block_tokens == block


def test_sparse_latents_that_need_blocks_of_one_token_say_so():
    with pytest.raises(UsageError) as caught:
        picked("mi300x", "sparse latent", Need(576, "16 bit", release=(0, 17, 1)))
    assert caught.value.problem.hint == "--block-size 1"


@pytest.mark.parametrize(
    ("gpu", "release", "loads"),
    [
        ("mi250x", "0.29.0", False),
        ("rx-7900-xtx", "0.33.0", False),
        ("mi300x", "0.33.0", True),
        ("mi250x", "0.28.0", True),
    ],
)
def test_fp8_by_tensor_needs_a_gpu_that_multiplies_it(gpu, release, loads):
    asked = FitQuestion(engine=f"vllm@{release}", context=8192, weight_dtype="fp8")
    if loads:
        kvplan.fit("llama-3-8b", gpu, asked)
    else:
        with pytest.raises(NotServed):
            kvplan.fit("llama-3-8b", gpu, asked)
