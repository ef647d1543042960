"""The longest sequence of a plan is one that is planned to fit, and the next isn't: what budgets and suggestions stand on."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest

from kvplan import api
from kvplan.api import FitQuestion, given
from kvplan.api.launch import share
from kvplan.api.question import planned
from kvplan.arch.parallel import Parallel
from kvplan.engines import registry
from kvplan.engines.base import Options, Setup
from kvplan.errors import KvplanError
from kvplan.plan.fit import Plan, fit
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model, model_names

GPUS = ("h100", "h200", "b200", "a100-sxm-80", "l4", "rtx-4090", "mi300x", "a800-sxm-80")
RELEASES = ("ideal", "vllm", "vllm@0.28.0", "vllm@0.19.0", "vllm@0.15.0", "vllm@0.10.0", "vllm@0.7.3")
CONTEXTS = (1, 100, 4096, 8192, 100_000, None)


def plan(model: str, gpu: str, engine: str = "vllm", **asked: object) -> Plan:
    return planned(given.model(model), given.gpu(gpu), FitQuestion(engine=engine, **asked))[0]  # type: ignore[arg-type]


def check(found: Plan) -> None:
    """The longest fits when it is asked for, and one more token doesn't, unless the model ends there."""
    longest, request = found.max_context, found.request
    if longest is None:
        return
    if longest:
        assert fit(replace(request, context=longest)).fits
    if longest in (request.engine.longest_context(request.model), request.context):
        return
    with suppress(KvplanError):
        assert not fit(replace(request, context=longest + 1)).fits


CASES = (
    ("deepseek-v4-pro", "h200", "vllm", {"parallel": Parallel(tp=8), "context": 8192}),
    ("llama-3.1-8b", "l4", "vllm@0.7.3", {"context": 4096}),
    ("llama-3.1-8b", "l4", "vllm@0.7.3", {"context": 100_000}),
    ("command-r-35b", "a800-sxm-80", "vllm@0.19.0", {"kv_dtype": "fp8_e5m2", "context": 1}),
    (
        "falcon-40b", "h800-sxm", "vllm@0.15.0",
        {"parallel": Parallel(tp=2), "options": Options(max_num_seqs=8), "context": 100},
    ),
)  # fmt: skip


@pytest.mark.parametrize(("model", "gpu", "engine", "asked"), CASES, ids=lambda value: str(value)[:20])
def test_lengths_that_take_memory_of_their_own(model: str, gpu: str, engine: str, asked: dict[str, object]):
    check(plan(model, gpu, engine, **asked))


def test_a_profile_of_whole_prompts_shortens_what_fits():
    # by asking `fit` for one length after the other, each with its own profile; by the memory of 4,096's it would be 22,112
    found = plan("llama-3.1-8b", "l4", "vllm@0.7.3", context=4096)
    asked = [tokens for tokens in range(16_000, 22_113, 4) if fit(replace(found.request, context=tokens)).fits]
    assert found.max_context is not None
    assert max(asked) <= found.max_context < max(asked) + 4


@pytest.mark.parametrize("seed", range(12))
def test_the_longest_fits_and_the_next_does_not(seed: int):
    chosen = random.Random(seed)  # noqa: S311 - a sample
    for _ in range(25):
        name, gpu, engine = (chosen.choice(each) for each in (tuple(model_names()), GPUS, RELEASES))
        tp, context = chosen.choice((1, 1, 2, 4, 8)), chosen.choice(CONTEXTS)
        try:
            found = plan(name, gpu, engine, parallel=Parallel(tp=tp), context=context)
        except KvplanError:
            continue
        check(found)


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
@pytest.mark.parametrize("context", [100, 1024])
def test_no_sequence_is_longer_than_the_table_of_positions(engine: str, context: int):
    assert plan("gpt2", "h100", engine, context=context).max_context == 1024


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_past_the_table_its_end_is_the_longest(engine: str):
    found = plan("gpt2", "h100", engine, context=2048)
    assert not found.fits
    assert found.max_context == 1024


def test_no_share_of_the_memory_helps_past_the_table():
    least, why = share(plan("gpt2", "h100", context=2048, concurrency=1))
    assert least is None
    assert why is not None
    assert "table of 1,024" in why


def test_another_number_that_the_engine_states_has_its_own_place():
    """vLLM counts with the memory of the length it was started with; so its estimate isn't the longest that fits."""
    report = api.fit("llama-3.1-8b", "l4", FitQuestion(engine="vllm@0.7.3", context=20_000))
    assert report.verdict == "does_not_fit"
    assert report.max_context_name is None
    assert report.max_context is not None
    assert report.max_context < 20_000


@pytest.mark.parametrize(
    ("name", "gpu", "engine"),
    [("deepseek-v4-pro", "h200", "vllm"), ("llama-3.1-8b", "l4", "vllm@0.7.3"), ("gpt2", "h100", "ideal")],
)
def test_the_budget_of_the_own_length_is_the_budget(name, gpu, engine):
    setup = Setup(load_model(name), load_gpu(gpu), Parallel(), None, Options(), 1024)
    started = registry.engine(engine).start(setup)
    assert started.budget_at(1024) == started.budget()
