"""DeepSeek-V4-Flash-0731: ratios of compression beyond its layers, which vLLM 0.33's planner passes over."""

from __future__ import annotations

import pytest
from engines.vllm_rows import difference

from kvplan.arch.model import Origin
from kvplan.families import read
from kvplan.sources.bundled import bundled_document

LAYERS, NAMED_BY_DSPARK = 43, 3


@pytest.mark.parametrize("tp", [1, 4, 8])
def test_surplus_ratios_change_no_plan(tp: int) -> None:
    config = dict(bundled_document("deepseek-v4-flash").config)
    config["compress_ratios"] = [*config["compress_ratios"][:LAYERS], *[0] * NAMED_BY_DSPARK]
    row = {
        "gpu": "h100", "tp": tp, "pp": 1, "kv_cache_dtype": "auto", "flags": {}, "available_bytes": 40 << 30,
        "num_blocks": 42_853, "kv_tokens": 4_169_106, "max_concurrency": 3.975969567637781,
    }  # fmt: skip
    assert difference(read(config, Origin("test", "test")), row) is None
