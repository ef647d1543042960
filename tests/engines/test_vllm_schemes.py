"""Cache formats that checkpoints state, and which attention of which release hears of them."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks import allocate
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.versions import parse
from kvplan.families import read
from kvplan.sources.bundled import bundled_document
from kvplan.sources.gpus import load_gpu
from kvplan.units import GIB

SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
WEIGHTS = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel", "dynamic": False}
INPUTS = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
COMPRESSED = {
    "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"], "kv_cache_scheme": SCHEME,
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": WEIGHTS, "input_activations": INPUTS}},
}  # fmt: skip
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}


def checkpoint(name: str, block: dict[str, Any]) -> Model:
    config = {key: value for key, value in bundled_document(name).config.items() if key != "quantization_config"}
    return read({**config, "quantization_config": block}, Origin("a checkpoint", "a test"))


@pytest.mark.parametrize(
    ("name", "pool"),
    [("deepseek-v3", (38_199, 611_184)), ("deepseek-v3.2", (8_568, 548_352)), ("glm-5", (6_700, 428_800))],
)
def test_latents_never_hear_of_a_scheme(name, pool):
    """vLLM 0.33's own planner on an H100 with 40 GiB of cache: MLAAttention takes the cache's own format."""
    setup = Setup(checkpoint(name, COMPRESSED), load_gpu("h100"), Parallel(), None, Options(), 2048)
    found = allocate.pool(Vllm().start(setup).made, 40 * GIB)
    assert isinstance(found, allocate.Pool)
    assert (found.blocks, found.tokens) == pool


@pytest.mark.parametrize(
    ("name", "block", "version", "format_"),
    [
        # attention/layer.py of 0.14.1 doesn't look for kv_cache_scheme; 0.15.1's sets "fp8"
        ("llama-3.1-8b", COMPRESSED, "0.14.0", "bf16"), ("llama-3.1-8b", COMPRESSED, "0.15.1", "fp8"),
        ("llama-3.1-8b", COMPRESSED, "0.33.0", "fp8"), ("minicpm3-4b", COMPRESSED, "0.33.0", "fp8"),
        # utils/torch_utils.py of 0.13 doesn't know kv_cache_quant_algo; 0.14's engine/arg_utils.py resolves it first of all
        ("llama-3.1-8b", MODELOPT, "0.13.0", "bf16"), ("llama-3.1-8b", MODELOPT, "0.14.0", "fp8"),
        ("deepseek-v3", MODELOPT, "0.33.0", "fp8"), ("deepseek-v3", COMPRESSED, "0.33.0", "bf16"),
    ],
)  # fmt: skip
def test_which_release_reads_what(name, block, version, format_):
    assert Vllm(parse(version)).kv_format(checkpoint(name, block), None, load_gpu("h100")).k.name == format_
