"""Compressed attention whose ratios aren't the published ones, as vLLM 0.33's planner answered."""

from __future__ import annotations

import pytest
from engines.vllm_rows import GPUS, difference

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.versions import Version
from kvplan.errors import NotServed, NotSplit, Unsupported
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


def _setup(ratios: list[int], *, pp: int = 1) -> Setup:
    """The bundled DeepSeek-V4-Flash with these layers, and the window alone for its draft."""
    config = {
        **bundled_document("deepseek-v4-flash").config,
        "num_hidden_layers": len(ratios),
        "compress_ratios": [*ratios, 0],
    }
    model = read(config, Origin("test", "test"))
    return Setup(model, GPUS["h200"], Parallel(tp=8, pp=pp), parse_kv_format("fp8"), Options(), 8192)


@pytest.mark.parametrize("ratios", [[128] * 8, [0] * 4 + [128] * 8])
@pytest.mark.parametrize("version", [(0, 29, 0), (0, 33, 0)])
def test_pages_lie_side_by_side_only_beside_an_indexer(ratios: list[int], version: Version) -> None:
    """vLLM 0.33's planner: "page size is not divisible by the maximum page size and cannot be padded"."""
    with pytest.raises(NotServed) as caught:
        Vllm(version).start(_setup(ratios))
    assert "none of its compress_ratios is 4" in str(caught.value.problem.cause)


def test_one_layer_with_an_indexer_is_enough_and_windows_alone_need_none() -> None:
    assert Vllm((0, 33, 0)).start(_setup([128] * 7 + [4]))
    assert Vllm((0, 33, 0)).start(_setup([0] * 8))


@pytest.mark.parametrize("version", [(0, 29, 0), (0, 33, 0)])
def test_every_stage_asks_for_the_same_layout(version: Version) -> None:
    """`assert all(names == supported_layouts[0] ...)`: of 2 + 2 layers the first stage has windows alone, of 4 one indexer."""
    ratios = [0, 0, 4, 128]
    with pytest.raises(NotSplit) as caught:
        Vllm(version).start(_setup(ratios, pp=2))
    assert "stage 0 has no layer" in str(caught.value.problem.cause)
    assert caught.value.problem.hint == "--pp 1"
    assert Vllm(version).start(_setup(ratios[1:3] * 2, pp=2))
    assert Vllm((0, 28, 0)).start(_setup(ratios, pp=2))
