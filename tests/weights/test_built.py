"""What the releases' classes build that configs don't say: ends on every pipeline stage, heads of their own, wide routers."""

from __future__ import annotations

import pytest
from weights.conftest import bundled

from kvplan.arch.parallel import Parallel
from kvplan.engines.vllm.layout.views import view_of
from kvplan.engines.vllm.tables import built
from kvplan.engines.vllm.tables.releases import RELEASES
from kvplan.engines.vllm.tables.spans import spans
from kvplan.engines.vllm.tables.versions import Version, parse
from kvplan.sources.gpus import load_gpu

TABLES = (
    built.HEAD_EVERYWHERE,
    built.EMBEDDING_EVERYWHERE,
    built.OWN_HEAD,
    built.WIDE_ROUTERS,
    built.WIDE_ROUTERS_ELSEWHERE,
)


def on_stage(name: str, version: Version, *, stage: int = 0, pp: int = 1, gpu: str = "h100-sxm") -> int:
    model = bundled(name)
    return model.weights.bytes_on_rank(Parallel(pp=pp), stage, view_of(model, load_gpu(gpu), version))


@pytest.mark.parametrize(
    ("name", "before", "after", "more"),
    [
        (
            "glm-4.5",
            (0, 10, 0),
            (0, 10, 1),
            89 * 160 * 5120 * 2,
        ),  # 16 more bits of each input of 160 experts in 89 layers
        ("ernie-4.5-300b-a47b", (0, 11, 0), (0, 11, 1), 51 * 64 * (8192 + 1) * 2),  # a bias of each, too
        ("nemotron-3-nano-30b-a3b", (0, 11, 0), (0, 11, 1), 23 * 128 * 2688 * 2),
    ],
)
def test_routers_became_wide(name, before, after, more):
    """Source: `self.gate = ` in models/glm4_moe.py, ernie45_moe.py and nemotron_h.py of the releases on both sides."""
    assert on_stage(name, after) - on_stage(name, before) == more


@pytest.mark.parametrize(
    ("gpu", "version", "wide"),
    [
        ("h100-sxm", (0, 16, 0), True), ("h100-sxm", (0, 17, 0), False), ("b200", (0, 33, 0), False),
        ("a100-80", (0, 33, 0), True), ("rtx-5090", (0, 33, 0), True), ("mi300x", (0, 33, 0), True),
    ],
)  # fmt: skip
def test_nemotron_s_routers_are_wide_without_kernels_for_them(gpu, version, wide):
    """Source: fused_moe/router/gate_linear.py, force_fp32_compute: Hopper and data center Blackwell have kernels."""
    more = on_stage("nemotron-3-nano-30b-a3b", version, gpu=gpu) - on_stage(
        "nemotron-3-nano-30b-a3b", (0, 11, 0), gpu=gpu
    )
    assert more >= 23 * 128 * 2688 * 2 if wide else more == 0


@pytest.mark.parametrize(
    ("name", "before", "after", "vocabulary", "hidden"),
    [
        ("deepseek-v2-lite", (0, 7, 3), (0, 8, 0), 102_400, 2048),
        ("qwen2.5-72b", (0, 6, 4), (0, 6, 5), 152_064, 8192),
        ("olmo-2-7b", (0, 25, 1), (0, 26, 0), 100_352, 4096),
    ],
)
def test_heads_left_the_first_stage(name, before, after, vocabulary, hidden):
    """Source: ParallelLMHead in models/deepseek_v2.py, qwen2.py; olmo2.py, whose types the library's code runs since 0.26."""
    assert on_stage(name, before, pp=2) - on_stage(name, after, pp=2) >= vocabulary * hidden * 2


@pytest.mark.parametrize("table", TABLES)
def test_spans_are_of_releases(table):
    known = {parse(release) for release in RELEASES}
    for written in table.values():
        for start, end in spans(written):
            assert start in known
            assert end is None or (end in known and start <= end)
