"""The functions refuse what the command line refuses, in its words, and name the argument."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.errors import UnknownName, UsageError
from kvplan.units import MOST


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("context", -5), ("context", 0), ("context", 1.5), ("context", "8k"), ("context", True), ("weights", -(10**10)),
        ("weights", 0), ("concurrency", -3), ("concurrency", MOST + 1), ("batch", 0), ("end", "banana"),
    ],
)  # fmt: skip
def test_questions(name, value):
    with pytest.raises(UsageError, match=f"^{name}: "):
        kvplan.FitQuestion(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("utilization", 5), ("utilization", 0), ("utilization", float("nan")), ("utilization", True), ("utilization", "0.9"),
        ("kv_memory", 0), ("weights", -1), ("overhead", -1), ("block_size", -16), ("max_num_seqs", 0), ("max_loras", -1),
        ("max_num_batched_tokens", 1.5), ("speculative_tokens", -1), ("max_lora_rank", 0),
    ],
)  # fmt: skip
def test_options(name, value):
    with pytest.raises(UsageError, match=f"^{name}: "):
        kvplan.Options(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("contexts", [0]), ("contexts", "8k"), ("contexts", [8192, 1.5]), ("prompt", -1), ("batch", 0)],
)
def test_sizes(name, value):
    with pytest.raises(UsageError, match=f"^{name}: "):
        kvplan.size("llama-3-8b", **{name: value})


def test_the_rest():
    with pytest.raises(UsageError, match=r"^context: 0 is not a whole number from 1"):
        kvplan.compare(["llama-3-8b"], context=0)
    with pytest.raises(UsageError, match=r"^memory: "):
        kvplan.load_gpu("h100", memory=1.5)
    with pytest.raises(UsageError):
        kvplan.Parallel(tp=1.5)


def test_what_is_allowed():
    kvplan.Options(overhead=0, speculative_tokens=0, utilization=1, max_loras=0)
    kvplan.FitQuestion(context=1, concurrency=MOST, weights=1)


@pytest.mark.parametrize("field", ["engine", "kv_dtype", "weight_dtype", "draft"])
def test_a_wrong_name_in_a_question_is_no_models_fault(field):
    with pytest.raises(UnknownName, match="nope"):
        kvplan.fit_all("h100", kvplan.FitQuestion(**{field: "nope"}), ["llama-3-8b"])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: kvplan.size(None), "model: None is no Model or name"),
        (lambda: kvplan.load_model(None), "model: None is no name"),
        (lambda: kvplan.load_gpu(8), "gpu: 8 is no name"),
        (lambda: kvplan.size("llama-3-8b", contexts=8192), "contexts: 8192 is one where several may be given"),
        (lambda: kvplan.size("llama-3-8b", contexts="8k"), "contexts: '8k' is one where several may be given"),
        (lambda: kvplan.size("llama-3-8b", parallel=8), "parallel: 8 is no Parallel"),
        (lambda: kvplan.size("llama-3-8b", options={}), "options: {} is no Options"),
        (lambda: kvplan.size("llama-3-8b", engine=None), "engine: None is no name"),
        (lambda: kvplan.size("llama-3-8b", kv_dtype=8), "kv_dtype: 8 is no KvFormat"),
        (lambda: kvplan.size("llama-3-8b", weight_dtype=8), "weight_dtype: 8 is not a format"),
        (lambda: kvplan.fit("llama-3-8b", None), "gpu: None is no Gpu or name"),
        (lambda: kvplan.fit("llama-3-8b", "h100", {"context": 8192}), "question: {'context': 8192} is no FitQuestion"),
        (lambda: kvplan.fit_all("h100", None), "question: None is no FitQuestion"),
        (lambda: kvplan.fit_all("h100", names="llama-3-8b"), "names: 'llama-3-8b' is one where several may be given"),
        (lambda: kvplan.compare("llama-3-8b"), "compared: 'llama-3-8b' is one where several may be given"),
        (lambda: kvplan.compare(["llama-3-8b"], kv_dtypes="fp8"), "kv_dtypes: 'fp8' is one where several may be given"),
        (lambda: kvplan.compare(["llama-3-8b"], attentions="mla"), "attentions: 'mla' is one where several may be given"),
        (lambda: kvplan.models("llama-3-8b"), "names: 'llama-3-8b' is one where several may be given"),
        (lambda: kvplan.gpus("h100"), "names: 'h100' is one where several may be given"),
        (lambda: kvplan.Parallel(tp="8"), "tp: '8' is not a whole number from 1"),
        (lambda: kvplan.Parallel(dp=0), "dp: 0 is not a whole number from 1"),
    ],
)  # fmt: skip
def test_what_is_no_such_thing_is_refused_by_the_name_of_its_argument(call, said):
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.problem.what.startswith(said)


def test_several_may_come_from_anything_that_can_be_gone_through():
    rows = kvplan.compare((name for name in ("llama-3-8b", "deepseek-v3")), context=8192).rows
    assert [row.model for row in rows] == ["llama-3-8b", "deepseek-v3"]
