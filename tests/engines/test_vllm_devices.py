"""Devices that vLLM's rules don't cover, and models that it doesn't serve: never a number of blocks, whatever the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan import api
from kvplan.engines.vllm.tables.devices import ELSEWHERE, PLATFORMS
from kvplan.errors import Unsupported
from kvplan.sources.gpus import all_gpus

SMALL = api.FitQuestion(context=8192)
OTHERS = ("m3-max-64gb", "tpu-v6e", "inferentia2", "trainium2", "ascend-910b", "gaudi3", "arc-b580")


@pytest.mark.parametrize("gpu", OTHERS)
def test_other_devices_are_planned_by_the_formula_and_say_so(gpu):
    found = api.fit("llama-3.2-1b", gpu, SMALL)
    assert (found.engine.name, found.reserved) == ("ideal", None)
    assert found.warnings[0] == f"kvplan has no rules for vLLM on {gpu}: planned by the formula."


@pytest.mark.parametrize("gpu", OTHERS)
@pytest.mark.parametrize("asked", [{"engine": "vllm"}, {"emit": "vllm"}, {"emit": "k8s"}])
def test_asked_for_vllm_they_are_refused(gpu, asked):
    with pytest.raises(Unsupported, match=f"no rules for vLLM on {gpu}"):
        api.fit("llama-3.2-1b", gpu, replace(SMALL, **asked))


@pytest.mark.parametrize(
    ("gpu", "version", "runs"),
    [
        # torch 2.10's builds begin at 7.0 (0.19.1 asks for it), 2.11's at 7.5 (0.20.0)
        ("v100-sxm-16", "0.19.1", True), ("v100-sxm-16", "0.20.0", False), ("v100-sxm-16", "0.33.0", False),
        ("p100-16", "0.6.4", False), ("p100-16", "0.33.0", False), ("t4", "0.33.0", True), ("mi300x", "0.33.0", True),
    ],
)  # fmt: skip
def test_the_least_compute_capability_of_published_builds(gpu, version, runs):
    question = replace(SMALL, engine=f"vllm@{version}")
    if runs:
        assert api.fit("llama-3.2-1b", gpu, question).reserved is not None
    else:
        with pytest.raises(Unsupported, match=f"has no kernels for {gpu}"):
            api.fit("llama-3.2-1b", gpu, question)


def test_the_refusal_names_a_release_that_runs_it():
    with pytest.raises(Unsupported) as caught:
        api.fit("llama-3.2-1b", "v100-sxm-16", replace(SMALL, engine="vllm"))
    assert caught.value.problem.hint == "an --engine vllm@ before 0.20.0, or --engine ideal"
    with pytest.raises(Unsupported) as caught:
        api.fit("llama-3.2-1b", "p100-16", replace(SMALL, engine="vllm"))
    assert caught.value.problem.hint == "--engine ideal"


def test_every_vendor_is_in_one_of_the_tables():
    assert {gpu.vendor for gpu in all_gpus()} == {*PLATFORMS, *ELSEWHERE}


@pytest.mark.parametrize("context", [8192, 131_072, 200_000, 1_000_000])
def test_what_isnt_served_is_asked_before_the_memory(context):
    # vLLM's step of this model would take all of an A10G's memory from 200,000 tokens on: no reason to ask it then
    question = api.FitQuestion(context=context, parallel=api.Parallel(tp=2, pp=2))
    found = api.fit("llama-3.2-11b-vision", "a10g", question)
    assert found.engine.name == "ideal"
    assert "planned by the formula" in found.warnings[0]
    with pytest.raises(Unsupported):
        api.fit("llama-3.2-11b-vision", "a10g", replace(question, engine="vllm"))


def test_a_refused_format_is_an_error_where_the_weights_dont_fit_either():
    with pytest.raises(api.KvplanError, match="has no cache format nvfp4"):
        api.fit("llama-3-70b", "t4", replace(SMALL, engine="vllm@0.11.0", kv_dtype="nvfp4"))


def test_what_is_said_of_every_model_stands_under_the_table():
    from kvplan.report.views.fit_table import view

    table = api.fit_all("m3-max-64gb", SMALL, ["llama-3.2-1b", "qwen3-8b"])
    assert "kvplan has no rules for vLLM on m3-max-64gb: planned by the formula." in str(view(table))
