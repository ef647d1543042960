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
def test_a_question_out_of_range_names_its_field(name, value):
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
