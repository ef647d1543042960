"""What vLLM's attention backends on Intel's GPUs take, read in platforms/xpu.py and v1/attention/backends of 0.10 to 0.33."""

from __future__ import annotations

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks.backends import Need, capability, pick, platform
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import Unsupported
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

ARC = load_gpu("arc-pro-b60")


@pytest.mark.parametrize(
    ("table", "need", "backend"),
    [
        ("attention", Need(128, "fp8"), ("FLASH_ATTN", (64,))),
        ("attention", Need(128, "16 bit", release=(0, 31, 0)), ("FLASH_ATTN", (16,))),
        ("attention", Need(256, "16 bit", image_prefix=True), ("TRITON_FLASH_ATTN", (64,))),
        (
            "attention",
            Need(128, "16 bit", image_prefix=True),
            ("TRITON_ATTN", (16,)),
        ),  # a size that the two don't share
        ("attention", Need(256, "16 bit", image_prefix=True, release=(0, 24, 0)), ("FLASH_ATTN", (16,))),
        ("latent", Need(576, "16 bit"), ("FLASH_ATTN_MLA", (64,))),
        ("latent", Need(576, "fp8"), ("TRITON_MLA", (16,))),
        ("latent", Need(576, "16 bit", release=(0, 31, 0)), ("TRITON_MLA", (16,))),
    ],
)
def test_the_first_backend_that_takes_a_layer(table, need, backend):
    found = pick(table, need, capability(ARC), None, platform(ARC))
    assert (found.name, found.sizes) == backend


def started(name: str, release: tuple[int, int, int]):
    setup = Setup(load_model(name), ARC, Parallel(tp=2), parse_kv_format("bf16"), Options(), 4096)
    return Vllm(release).start(setup)


@pytest.mark.parametrize(
    ("name", "release", "block"),
    [
        ("llama-3-8b", (0, 14, 0), 64),  # check_and_update_config
        ("llama-3-8b", (0, 33, 0), 64),  # get_preferred_block_size
        ("deepseek-v2-lite", (0, 19, 0), 64),
        ("deepseek-v2-lite", (0, 20, 0), 16),
    ],
)
def test_blocks(name, release, block):
    assert started(name, release).capacity(16 * 2**30).block_tokens == block


@pytest.mark.parametrize(("name", "release"), [("deepseek-v3.2", (0, 33, 0)), ("qwen3-next-80b", (0, 19, 0))])
def test_what_was_not_read_is_refused(name, release):
    with pytest.raises(Unsupported):
        started(name, release)
