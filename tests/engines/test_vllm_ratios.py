"""Compressed attention whose ratios aren't the published ones, as vLLM 0.33's planner answered."""

from __future__ import annotations

import pytest
from engines.vllm_rows import GPUS, difference

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import Unsupported
from kvplan.families import read
from kvplan.sources.bundled import bundled_document

LAYERS, NAMED_BY_DSPARK = 43, 3


@pytest.mark.parametrize("tp", [1, 4, 8])
def test_surplus_ratios_change_no_plan(tp: int) -> None:
    """DeepSeek-V4-Flash-0731 lists three more than it has layers."""
    config = dict(bundled_document("deepseek-v4-flash").config)
    config["compress_ratios"] = [*config["compress_ratios"][:LAYERS], *[0] * NAMED_BY_DSPARK]
    row = {
        "gpu": "h100", "tp": tp, "pp": 1, "kv_cache_dtype": "auto", "flags": {}, "available_bytes": 40 << 30,
        "num_blocks": 42_853, "kv_tokens": 4_169_106, "max_concurrency": 3.975969567637781,
    }  # fmt: skip
    assert difference(read(config, Origin("test", "test")), row) is None


@pytest.mark.parametrize("ratio", [2, 8, 32, 256])
def test_other_ratios_have_no_compressor(ratio: int) -> None:
    """`assert compress_ratio in [4, 128]`; the formula of what is kept holds for any."""
    config = dict(bundled_document("deepseek-v4-flash").config)
    config["compress_ratios"] = [ratio, *config["compress_ratios"][1:]]
    model = read(config, Origin("test", "test"))
    with pytest.raises(Unsupported) as caught:
        Vllm().start(Setup(model, GPUS["h100"], Parallel(), parse_kv_format("fp8"), Options(), 8192))
    assert f"compress_ratios (or compress_rates) have {ratio}" in str(caught.value.problem.cause)
