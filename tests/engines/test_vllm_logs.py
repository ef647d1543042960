"""What vLLM's start-up logs print, and what kvplan makes of the same GPU, model and flags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from bench.accuracy.capacities import outcomes
from bench.accuracy.margins import learned, safe_ends, width
from bench.accuracy.overheads import cases, fit, held_out, published
from bench.accuracy.rows import KNOWN, read_rows
from bench.accuracy.weights import counted
from kvplan.engines.vllm.memory import doubt
from kvplan.engines.vllm.memory.overhead import COSTS, MANY
from kvplan.units import GIB

SAMPLE = Path(__file__).parents[1] / "data" / "vllm-logs-sample.jsonl"
HELD_OUT = SAMPLE.with_name("vllm-logs-held-out.jsonl")
"""Logs that no rate was ever fitted to, and none is to be."""
NOWHERE = Path("no configs: models of these logs come with kvplan")


READ = {
    "logits second runner": 1,
    "logits copied to fp32": MANY,
    "logits as they are": MANY,
    "logits picked by FlashInfer": MANY,
}
"""Rates that no log shows and that vLLM's code does, and what that counts for: what a tensor's type says is sure."""


def promised_too_much(rows) -> list[str]:
    return [case.row.id for case in rows if case.kv.low / GIB > case.available + 0.01 * abs(case.available)]


def percentile(errors, share) -> float:
    return sorted(map(abs, errors))[int(share * len(errors))]


@pytest.fixture(scope="module")
def sample():
    return read_rows(SAMPLE, NOWHERE)


@pytest.fixture(scope="module")
def held_out_logs():
    return read_rows(HELD_OUT, NOWHERE)


@pytest.fixture(scope="module")
def logs(corpus):
    return read_rows([corpus / "engine-logs.jsonl", SAMPLE], corpus / "configs")


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
    here = [outcome for outcome in found if outcome.row.config_here]
    for rows in (found, here):
        assert sum(outcome.hit for outcome in rows) >= 0.95 * len(rows)


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


def test_the_safe_end_is_safe_where_nothing_of_it_saw_the_source(logs):
    """Rates, counts of sources and the width of the margin all come from other sources; and it stays of use."""
    found = cases(logs)
    ends = safe_ends(found)
    assert sum(end.promises_too_much for end in ends) <= 0.02 * len(ends)
    gaps = [(case.kv.likely - case.kv.low) / GIB / abs(case.available) for case in found]
    assert median(gaps) <= 0.035


def test_margins_know_what_the_logs_show(logs):
    found = cases(logs)
    known = learned(found)
    assert {name: cost.sources for name, cost in COSTS.items()} == known.sources | READ
    assert not set(READ) & set(known.sources)
    assert dict(doubt.CLASSES) == known.classes
    assert width(found) <= doubt.WIDTH <= 1.1 * width(found)


def test_what_was_never_seen_is_less_sure(sample):
    case = cases(sample)[0]
    kv = case.kv
    unread = case.kv_with(replace(case.held, read=False))
    elsewhere = replace(case, gpu=replace(case.gpu, compute_capability=(99, 0))).kv
    for less in (unread, elsewhere):
        assert less.likely == kv.likely
        assert kv.low - less.low == pytest.approx(doubt.WIDTH * doubt.UNSEEN * case.gpu.memory.value, rel=1e-3)


def test_rates_are_the_fitted_ones(logs):
    found = cases(logs)
    fitted = fit(found)
    shown = [name for name in COSTS if sum(name in case.amounts for case in found) >= 5]
    assert len(shown) >= 10
    for name in shown:
        assert COSTS[name].likely == pytest.approx(fitted[name], rel=0.3), name


def test_a_printed_total_goes_before_the_catalogue(sample):
    """WSL shows 23.99 GiB of an RTX 4090, Linux 23.6: vLLM takes 0.85 of what it is shown."""
    case = next(each for each in cases(sample) if each.row.id == "file-61918553602-cold")
    assert case.usable == pytest.approx(0.85 * 23.99, abs=1e-6)
    assert case.gpu.compute_capability == (8, 9)


def test_held_out_logs_print_the_same_figures(held_out_logs):
    found = outcomes(held_out_logs, resolved=False)
    assert [outcome.row.id for outcome in found if not outcome.hit] == []
    assert len(found) >= 20


def test_held_out_memory_is_between_the_ends(held_out_logs):
    found = cases(held_out_logs)
    assert promised_too_much(found) == []
    assert [case.row.id for case in found if case.available * GIB > case.kv.high] == []
    assert len(found) >= 10


def test_held_out_weights(held_out_logs):
    """Of checkpoints whose own config is known: a quantization that only the log names is a stand-in."""
    found = counted(row for row in held_out_logs if "quantization" not in row.raw)
    assert [each.row.id for each in found if abs(each.error) > 0.005] == []
    assert len(found) >= 5
