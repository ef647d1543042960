"""What vLLM's start-up logs print, and what kvplan makes of the same GPU, model and flags."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from bench.accuracy.capacities import outcomes
from bench.accuracy.overheads import cases, fit, held_out, published
from bench.accuracy.rows import KNOWN, read_rows
from kvplan.engines.vllm.budget import budget
from kvplan.engines.vllm.overhead import COSTS
from kvplan.units import GIB

SAMPLE = Path(__file__).parents[1] / "data" / "vllm-logs-sample.jsonl"


def low_end(case) -> float:
    return budget(case.model, case.gpu, case.flags, case.held, case.row.options).kv.low / GIB


def promised_too_much(rows) -> list[str]:
    return [case.row.id for case in rows if low_end(case) > case.available + 0.01 * abs(case.available)]


def percentile(errors, share) -> float:
    return sorted(map(abs, errors))[int(share * len(errors))]


@pytest.fixture(scope="module")
def sample():
    return read_rows(SAMPLE, Path("no configs: models of the sample come with kvplan"))


@pytest.fixture(scope="module")
def logs(corpus):
    return read_rows(corpus / "engine-logs.jsonl", corpus / "configs")


def test_sample_prints_the_same_figures(sample):
    found = outcomes(sample, resolved=True)
    missed = {outcome.row.id for outcome in found if not outcome.hit}
    assert missed <= set(KNOWN["unexplained"])
    assert len(found) >= 20


def test_sample_memory_is_predicted(sample):
    found = cases(sample)
    errors = [case.error(published()) for case in found]
    assert median(map(abs, errors)) < 0.012
    assert promised_too_much(found) == []


def test_figures_of_every_log(logs, count_cases):
    found = outcomes(logs, resolved=True)
    count_cases("vllm logs, figures", len(found))
    here = [outcome for outcome in found if outcome.row.config_here]
    missed = {outcome.row.id for outcome in found if not outcome.hit}
    assert missed == set(KNOWN["unexplained"]) - {"about"}
    assert sum(outcome.hit for outcome in here) >= 0.95 * len(here)


def test_few_logs_need_a_flag_they_do_not_show(logs):
    found = outcomes(logs, resolved=False)
    assert sum(outcome.hit for outcome in found) >= 0.9 * len(found)


def test_memory_of_every_log(logs, count_cases):
    found = cases(logs)
    count_cases("vllm logs, memory", len(found))
    errors = [case.error(published()) for case in found]
    assert median(map(abs, errors)) <= 0.012
    assert percentile(errors, 0.9) <= 0.06
    assert len(promised_too_much(found)) <= 0.02 * len(found)
    assert median(map(abs, errors)) < median(abs(case.flat_error) for case in found) / 5


@pytest.mark.parametrize("group", ["source", "model"])
def test_memory_by_rates_that_never_saw_it(logs, group):
    found = cases(logs)
    by = {
        "source": lambda case: case.row.source,
        "model": lambda case: str(case.row.raw.get("model_id") or case.row.id),
    }
    errors = [case.error(rates) for case, rates in zip(found, held_out(found, by[group]), strict=True)]
    assert median(map(abs, errors)) <= 0.012
    assert percentile(errors, 0.9) <= 0.06


def test_rates_are_the_fitted_ones(logs):
    found = cases(logs)
    fitted = fit(found)
    for name, cost in COSTS.items():
        rows = sum(name in case.amounts for case in found)
        if rows >= 5 and name != "logits second runner":
            assert cost.low <= fitted[name] <= cost.high, name
            assert cost.likely == pytest.approx(fitted[name], rel=0.3), name
