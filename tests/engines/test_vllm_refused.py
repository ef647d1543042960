"""Starts that vLLM refused on real machines, for want of cache: what it said one request needs, and the length it advised.

Logs print memory to two digits, so the length lies between those of the least and the most that the digits stand for. "file" is a
public file without a stable link, by its number in an index of such files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Refusal, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.versions import parse
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB


@dataclass(frozen=True)
class Said:
    """available, needed: GiB as printed. advised: tokens, None where the text ends before them."""

    source: str
    model: str
    gpu: str
    version: str
    length: int
    needed: float
    available: float
    advised: int | None
    parallel: Parallel = Parallel()  # noqa: RUF009 - it's frozen
    kv: str | None = None
    options: Options = field(default_factory=Options)


REFUSALS = (
    Said("https://github.com/vllm-project/recipes/pull/12", "qwen3-coder-480b-a35b", "h20", "0.10.1",
            262_144, 62.00, 48.66, 205_728, Parallel(dp=8, ep=8)),
    Said("https://github.com/vllm-project/recipes/pull/12", "qwen3-coder-480b-a35b", "h20", "0.10.1",
            262_144, 62.00, 55.65, 235_296, Parallel(dp=8, ep=8)),
    Said("https://github.com/vllm-project/vllm/issues/27508", "gpt-oss-120b", "h100", "0.11.0",
            131_072, 4.54, 1.71, None, options=Options(max_num_batched_tokens=1024)),
    Said("file 57119329401", "qwen3-4b", "rtx-5080", "0.11.0", 40_960, 5.62, 4.89, 35_600),
    Said("file 15382296188", "minimax-m2", "h100", "0.11.1", 196_608, 11.62, 9.38, 158_560, Parallel(tp=4)),
    Said("file 59082952012", "qwen3-235b-a22b", "h100", "0.13.0", 262_144, 11.75, 8.03, None, Parallel(tp=4)),
    Said("file 68910250822", "qwen2.5-7b", "a10", "0.22.0", 32_768, 1.75, 1.1, 20_512),
    Said("file 68904302597", "qwen3.6-27b", "rtx-3090", "0.27.0", 245_760, 4.38, 4.191, 233_600, Parallel(tp=2), "fp8",
            Options(speculative_tokens=3, prefix_caching=True)),
)  # fmt: skip


@pytest.mark.parametrize("said", REFUSALS, ids=lambda said: f"{said.model} {said.available}")
def test_one_request_needs_and_fits_what_vllm_said(said):
    model, gpu, engine = load_model(said.model, offline=True), load_gpu(said.gpu), Vllm(parse(said.version))
    kv = engine.kv_format(model, None if said.kv is None else parse_kv_format(said.kv), gpu)
    start = engine.start(Setup(model, gpu, said.parallel, kv, said.options, said.length))
    slack = 0.5 * 10 ** -len(str(said.available).partition(".")[2])
    least, most = (start.capacity(round((said.available + each) * GIB)) for each in (-slack, slack))
    assert isinstance(least, Refusal)
    assert round(least.needed_bytes / GIB, 2) == said.needed
    if said.advised is not None:
        assert least.max_context <= said.advised <= most.max_context
