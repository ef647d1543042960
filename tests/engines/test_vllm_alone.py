"""Starts that fail once the cache is allocated: logs of vLLM 0.19.0 on H100, github.com/llm-d-incubation/llm-d-planner,
accuracy/results/v0.19.0/logs, the two that end with "CUDA out of memory occurred when warming up sampler" among them."""

from __future__ import annotations

import pytest
from cli.running import run

from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.memory.alone import alone
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.settings import settings
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import parse
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB

STARTED = (
    ("llama-2-7b", 1), ("deepseek-v2-lite", 1), ("gemma-2-2b", 1), ("gemma-2-9b", 1), ("gemma-2-27b", 1), ("gemma-3-4b", 1),
    ("gemma-3-12b", 1), ("gemma-3-27b", 1), ("gemma-7b", 1), ("llama-3.1-8b", 1), ("llama-3.1-8b", 2), ("llama-3.1-8b", 4),
    ("llama-3-70b", 2), ("llama-3-70b", 4), ("llama-4-scout", 4), ("phi-2", 1), ("phi-4", 1), ("mistral-small-24b", 1),
    ("mixtral-8x7b", 2), ("qwen2.5-72b", 2), ("qwen2.5-72b", 4), ("qwen2.5-7b", 1), ("qwen3-30b-a3b", 1), ("qwen3-8b", 1),
)  # fmt: skip
"""Models, or models of the same shape, that started with utilization 0.95, and their tensor ranks."""


def said(name: str, tp: int, version: str = "0.19.0", gpu: str = "h100", **options) -> list[str]:
    found = (
        Vllm(parse(version))
        .start(
            Setup(
                load_model(name),
                load_gpu(gpu),
                Parallel(tp=tp),
                None,
                Options(**{"utilization": 0.95, **options}),
                8192,
            )
        )
        .cautions()
    )
    return [each for each in found if "when warming up sampler" in each]


@pytest.mark.parametrize(("name", "tp"), STARTED)
def test_starts_that_went_well_deserve_no_word(name, tp):
    assert said(name, tp) == []


@pytest.mark.parametrize("tp", [1, 2])
def test_starts_that_failed_do(tp):
    assert "with 1024 dummy requests" in said("gpt-oss-20b", tp)[0]


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ({"utilization": 0.9}, "0.19.0"),  # two ranks: a log that went well
        ({"graphs": False}, "0.19.0"),
        ({"kv_memory": 1 << 30}, "0.19.0"),
        ({}, "0.20.0"),  # graphs are counted: envs.py VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
    ],
)
def test_what_leaves_enough_alone(options, version):
    assert said("gpt-oss-20b", 2, version, **options) == []


def test_it_stands_beside_what_is_to_be_pasted():
    asked = ("fit", "gpt-oss-20b", "--gpu", "h100", "--ctx", "8k", "--engine", "vllm@0.19.0", "--utilization", "0.95")
    emitted = run(*asked, "--emit", "vllm")
    assert emitted.code == 0
    assert any(line.startswith("# ") and "warming up sampler" in line for line in emitted.out.splitlines())
    assert "warming up sampler" in run(*asked).out


@pytest.mark.parametrize(("gpu", "tp", "gib"), [("h100", 1, 0.5), ("h100", 2, 0.5 + 1.5), ("l40s", 2, 0.5 + 1.5 / 5)])
def test_links_without_nvlink_take_a_fifth(gpu, tp, gib):
    """Of 1 GiB among ranks, and 0.5 GiB more where experts are among them; contexts take 0.5 GiB."""
    held, card = rules(parse("0.19.0")), load_gpu(gpu)
    asked = Setup(load_model("gpt-oss-20b"), card, Parallel(tp=tp), None, Options(), 8192)
    found = alone(asked.model, card, settings(asked, held), held, asked.options)
    assert found is not None
    assert found.before / GIB == pytest.approx(gib)
