"""The functions refuse what the command line refuses, in its words, and name the argument."""

from __future__ import annotations

from dataclasses import fields

import pytest

import kvplan
from kvplan import api
from kvplan.api import given
from kvplan.api.question import looked_up, planned
from kvplan.errors import UnknownName, UsageError
from kvplan.sources.models import load_model
from kvplan.units import GIB, MOST


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("context", -5), ("context", 0), ("context", 1.5), ("context", "8k"), ("context", True), ("weights", -(10**10)),
        ("weights", 0), ("concurrency", -3), ("concurrency", MOST + 1), ("batch", 0), ("end", "banana"),
    ],
)  # fmt: skip
def test_a_question_out_of_range_names_its_field(name, value):
    with pytest.raises(UsageError, match=f"^{name}: "):
        kvplan.FitQuestion(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("utilization", 5), ("utilization", 0), ("utilization", float("nan")), ("utilization", True), ("utilization", "0.9"),
        ("kv_memory", 0), ("weights_per_gpu", -1), ("overhead", -1), ("block_size", -16), ("max_num_seqs", 0), ("max_loras", -1),
        ("max_num_batched_tokens", 1.5), ("speculative_tokens", -1), ("max_lora_rank", 0),
    ],
)  # fmt: skip
def test_an_option_out_of_range_is_named(name, value):
    with pytest.raises(UsageError, match=f"^{name}: "):
        kvplan.Options(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("contexts", [0]), ("contexts", "8k"), ("contexts", [8192, 1.5]), ("prompt", -1), ("batch", 0)],
)
def test_an_argument_of_size_out_of_range_is_named(name, value):
    with pytest.raises(UsageError, match=f"^{name}: "):
        kvplan.size("llama-3-8b", **{name: value})


def test_compare_gpus_and_parallel_sizes_refuse_what_is_no_whole_number():
    with pytest.raises(UsageError, match=r"^context: 0 is not a whole number from 1"):
        kvplan.compare(["llama-3-8b"], context=0)
    with pytest.raises(UsageError, match=r"^memory: "):
        kvplan.load_gpu("h100", memory=1.5)
    with pytest.raises(UsageError):
        kvplan.Parallel(tp=1.5)


def test_the_ends_of_each_range_are_taken():
    kvplan.Options(overhead=0, speculative_tokens=0, utilization=1, max_loras=0)
    kvplan.FitQuestion(context=1, concurrency=MOST, weights=1)


@pytest.mark.parametrize("field", ["engine", "kv_dtype", "weight_dtype", "draft"])
def test_a_wrong_name_in_a_question_is_no_models_fault(field):
    with pytest.raises(UnknownName, match="nope"):
        kvplan.fit_all("h100", kvplan.FitQuestion(**{field: "nope"}), ["llama-3-8b"])


def test_a_draft_is_loaded_once_for_all_models_and_keeps_its_name(monkeypatch):
    loaded = []

    def load(name, **more):
        loaded.append(name)
        return load_model(name, **more)

    monkeypatch.setattr(given, "load_model", load)
    draft = "llama-3.2-1b-instruct"
    asked, gpu = kvplan.FitQuestion(context=8192, draft=draft), kvplan.load_gpu("h100")
    table = kvplan.fit_all("h100", asked, ["llama-3-8b", "llama-3.1-8b"])
    assert (len(table.rows), loaded.count(draft)) == (2, 1)
    plan, _ = planned(load_model("llama-3-8b"), gpu, looked_up(asked, gpu))
    assert plan.request.model.weights.drafter == "meta-llama/Llama-3.2-1B-Instruct"


def test_nothing_is_called_the_same_among_the_options_and_beside_them() -> None:
    """Else `Options(draft=...)` or `Options(weights=...)` would be one thing there and another in the question."""
    options, question = ({field.name for field in fields(kind)} for kind in (api.Options, api.FitQuestion))
    assert not options & question


def test_a_draft_is_never_left_out_of_the_answer() -> None:
    """20 GiB hold 163,840 tokens of 32 x 4 KiB; 16 more layers of 2 KiB leave 131,072."""
    with pytest.raises(TypeError, match="draft"):
        api.Options(draft="llama-3.2-1b", speculative_tokens=3)  # type: ignore[call-arg]
    given = api.Options(kv_memory=20 * GIB)
    plain, drafted = (
        api.fit("llama-3-8b", "h100", api.FitQuestion(context=8192, draft=draft, options=given))
        for draft in (None, "llama-3.2-1b")
    )
    assert plain.reserved is not None
    assert drafted.reserved is not None
    assert (plain.reserved.kv_tokens, drafted.reserved.kv_tokens) == (163_840, 131_072)


@pytest.mark.parametrize(
    "beside",
    [{"weights": 16 * 10**9}, {"weight_dtype": "fp8"}],
)
def test_weights_are_given_one_way(beside: dict[str, object]) -> None:
    options = api.Options(weights_per_gpu=8 * 10**9)
    with pytest.raises(api.KvplanError, match="weights") as refused:
        api.fit("llama-3-8b", "h100", api.FitQuestion(context=8192, options=options, **beside))  # type: ignore[arg-type]
    assert "weights_per_gpu" in str(refused.value.problem.hint)


def test_weights_of_each_gpu_are_of_each_gpu_and_of_the_model_are_of_all() -> None:
    two = api.Parallel(tp=2)
    each = api.FitQuestion(context=8192, parallel=two, options=api.Options(weights_per_gpu=8 * 10**9))
    whole = api.FitQuestion(context=8192, parallel=two, weights=16 * 10**9)
    assert api.fit("llama-3-8b", "h100", each).per_gpu.weights_bytes == 8 * 10**9
    assert api.fit("llama-3-8b", "h100", whole).per_gpu.weights_bytes == 8 * 10**9


def test_what_nobody_would_load_is_not_emitted() -> None:
    options = api.Options(weights_per_gpu=8 * 10**9)
    with pytest.raises(api.KvplanError, match="aren't those of the checkpoint"):
        api.fit("llama-3-8b", "h100", api.FitQuestion(context=8192, options=options, emit="vllm"))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: kvplan.size(None), "model: expected Model or name, not None"),
        (lambda: kvplan.load_model(None), "model: expected name, not None"),
        (lambda: kvplan.load_gpu(8), "gpu: expected name, not 8"),
        (lambda: kvplan.size("llama-3-8b", contexts=8192), "contexts: 8192 isn't a list"),
        (lambda: kvplan.size("llama-3-8b", contexts="8k"), "contexts: '8k' isn't a list"),
        (lambda: kvplan.size("llama-3-8b", parallel=8), "parallel: expected Parallel, not 8"),
        (lambda: kvplan.size("llama-3-8b", options={}), "options: expected Options, not {}"),
        (lambda: kvplan.size("llama-3-8b", engine=None), "engine: expected name, not None"),
        (lambda: kvplan.size("llama-3-8b", kv_dtype=8), "kv_dtype: expected KvFormat or name, not 8"),
        (lambda: kvplan.size("llama-3-8b", weight_dtype=8), "weight_dtype: 8 is not a format"),
        (lambda: kvplan.fit("llama-3-8b", None), "gpu: expected Gpu or name, not None"),
        (lambda: kvplan.fit("llama-3-8b", "h100", {"context": 8192}), "question: expected FitQuestion, not {'context': 8192}"),
        (lambda: kvplan.fit_all("h100", None), "question: expected FitQuestion, not None"),
        (lambda: kvplan.fit_all("h100", names="llama-3-8b"), "names: 'llama-3-8b' isn't a list"),
        (lambda: kvplan.compare("llama-3-8b"), "compared: 'llama-3-8b' isn't a list"),
        (lambda: kvplan.compare(["llama-3-8b"], kv_dtypes="fp8"), "kv_dtypes: 'fp8' isn't a list"),
        (lambda: kvplan.compare(["llama-3-8b"], attentions="mla"), "attentions: 'mla' isn't a list"),
        (lambda: kvplan.models("llama-3-8b"), "names: 'llama-3-8b' isn't a list"),
        (lambda: kvplan.gpus("h100"), "names: 'h100' isn't a list"),
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
