"""Refusals and cautions at the edges of what is given: each names what to type instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from engines.test_vllm_gates import QWEN

from kvplan.api import load_model
from kvplan.arch.curve import StateGroup
from kvplan.arch.extras import with_draft
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import BF16, FP32
from kvplan.arch.weights import Weight
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.layout.experts import Kernels, swizzled
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import CannotSplit, KvplanError, UsageError
from kvplan.families import read
from kvplan.sources.gpus import load_gpu

LLAMA = load_model("llama-3-8b")
UNCOUNTED = replace(LLAMA, weights=None)


def start(made: Any = LLAMA, parallel: Parallel = Parallel(), **options: Any) -> Any:  # noqa: B008 - never changed
    return Vllm().start(Setup(made, load_gpu("h100"), parallel, None, Options(**options), 4096))


@pytest.mark.parametrize(
    ("asked", "error", "said", "hint"),
    [
        (lambda: start(max_loras=1, max_lora_rank=4096).budget(), UsageError, "rank 512 at most, not 4096", "--max-lora-rank 512"),
        (lambda: start(UNCOUNTED).budget(), UsageError, "aren't known", "--weights 140GB"),
        (lambda: start(UNCOUNTED, weights_per_gpu=10**10, max_loras=1).budget(), UsageError, "need its weights", None),
        (lambda: with_draft(LLAMA, UNCOUNTED), UsageError, "aren't known", "complete config.json"),
        (lambda: Parallel(tp=2, ep=3), CannotSplit, "--ep 3 can't be used with", "1, 2"),
        (lambda: Parallel(tp=4, dcp=3), CannotSplit, "--dcp 3 doesn't divide", "1, 2, 4"),
        (lambda: Setup(LLAMA, None, Parallel(), None, Options(), 4096).named_gpu, UsageError, "which GPU", "--gpu h100"),
        (lambda: start(load_model("deepseek-v4-flash"), block_size=64), KvplanError, "holds no entry of 128", "leave --block-size out"),
    ],
)  # fmt: skip
def test_what_is_refused(asked: Callable[[], object], error: type[KvplanError], said: str, hint: str | None):
    with pytest.raises(error) as caught:
        asked()
    assert said in caught.value.problem.what
    assert hint is None or hint in (caught.value.problem.hint or "")


def test_all_of_the_memory_deserves_a_word_before_it_is_refused():
    assert any("process's own context" in text for text in start(utilization=0.995).cautions())
    assert not any("process's own context" in text for text in start(utilization=0.9).cautions())


def test_triton_s_order_is_of_mxfp4_alone():
    """Of gpt-oss's experts biases are kept in 32 bit, and matrices in other formats as they are."""
    kernels = Kernels(load_gpu("h100"), family="gpt_oss")
    linear = Weight("experts.up_proj", (64, 64), "experts", BF16, split=0, copies=4, picked=2, linear=True)
    assert swizzled(linear, (64, 64), kernels) is None
    assert swizzled(replace(linear, shape=(64,), linear=False), (64,), kernels) is FP32


@pytest.mark.parametrize("given", [{"per_state": -1}, {"fixed": -1}, {"stride": 0}, {"spread": 0}, {"cap": -1}])
def test_no_growth_law(given: dict[str, int]):
    with pytest.raises(ValueError, match="not a growth law"):
        StateGroup(**given)


def test_modelopt_s_own_file_has_fewer_algorithms_than_a_config():
    """vLLM 0.33 transformers_utils/model_arch_config_convertor.py: MXFP8 isn't among those of hf_quant_config.json."""
    beside = {"hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MXFP8"}}}
    with pytest.raises(KvplanError) as caught:
        start(read(QWEN, Origin("test", "test"), beside))
    assert "Unknown ModelOpt quant algo: MXFP8" in str(caught.value.problem.cause)
