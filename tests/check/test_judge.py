"""Limits against made-up plans: which end, which side, which unit, and what is said."""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import Any, get_args

import pytest
from check.checking import GIB, KIB, StandIn, planned, unanswered
from hypothesis import given
from hypothesis import strategies as st

from kvplan.check.budgets.budget import ENDS, Deployment, Limit, Question, Starts
from kvplan.check.results.judge import judge
from kvplan.check.results.metrics import METRICS, STARTS
from kvplan.manifests.places import Place, Remark
from kvplan.report.schema.check import CheckRow, Result, Three

HERE = Place("b.yaml", 7)


def result(*limits: Limit, planner: StandIn | None = None, **changes: Any) -> Result:
    deployment = Deployment("d", Question("m", "h100"), Place("b.yaml", 3), limits, **changes)
    return judge(deployment, planner or StandIn())


def row(metric: str, bound: float, *, planner: StandIn | None = None, **changes: Any) -> CheckRow:
    limit = Limit(metric, bound, changes.pop("unit", METRICS[metric].unit), HERE, **changes)
    return result(limit, planner=planner).checks[1]


@pytest.mark.parametrize(
    ("metric", "kept", "broken"),
    [
        ("kv_per_token", 160 * KIB, 160 * KIB - 1),
        ("kv_per_sequence", 2 * GIB, 2 * GIB - 1),
        ("weights", 16 * GIB, 16 * GIB - 1),
        ("min_sequences", 4, 5),
        ("min_context", 32768, 32769),
        ("max_tpot", 0.030, 0.029),
        ("max_gpus", 1, 0),
        ("headroom", 8 * GIB, 8 * GIB + 1),
    ],
)
def test_the_safe_end_decides_to_the_byte(metric: str, kept: float, broken: float):
    assert row(metric, kept).status == "pass"
    assert row(metric, broken).status == "fail"


def test_ends_that_are_named_decide():
    assert [row("min_sequences", 5, end=end).status for end in ENDS] == ["fail", "pass", "pass"]
    assert [row("kv_per_sequence", GIB, end=end).status for end in ENDS] == ["fail", "fail", "pass"]
    assert row("min_context", 10**9, end="ideal").status == "pass"  # nothing limits it
    assert row("headroom", 0.8, unit="share").status == "pass"  # 8 GiB of 10
    assert row("headroom", 0.76, unit="share", end="likely").status == "fail"  # 9 GiB of 12


def test_a_warning_is_not_a_failure():
    assert row("max_gpus", 0, level="warn").status == "warn"
    assert result(Limit("max_gpus", 0, "gpus", HERE, level="warn")).status == "warn"


def test_rows_stand_on_their_limit_or_on_the_deployment_that_inherits_it():
    assert row("max_gpus", 0).shown.line == 7
    assert row("max_gpus", 0, own=False).shown.line == 3


def test_messages_have_the_numbers_in():
    assert row("kv_per_token", 128 * KIB).message == "cache per token: 160.0 KiB, above the limit of 128.0 KiB"
    assert row("min_sequences", 64, at=8192, end="likely").message == (
        "sequences at once at 8,192 tokens: 5 (likely), below the minimum of 64"
    )
    assert row("max_tpot", 0.01, batch=32).message.endswith("and batch 32: 30.00 ms, above the limit of 10.00 ms")


def test_a_length_or_a_batch_is_asked_for():
    planner = StandIn()
    row("min_sequences", 1, at=1024, planner=planner)
    row("max_tpot", 1, batch=16, planner=planner)
    assert [(asked.tokens, asked.batch) for asked in planner.asked] == [
        (None, None),
        (1024, None),
        (None, None),
        (None, 16),
    ]


def test_what_does_not_start_fails_by_the_end_that_decides():
    planner = StandIn({"m": planned(reasons={"safe": "a sequence takes too much"})})
    assert result(planner=planner).status == "fail"
    assert "does not start with 8,192 tokens: a sequence takes too much" in result(planner=planner).checks[0].message
    assert result(planner=planner, starts=Starts("likely")).status == "pass"
    assert result(planner=planner, starts=Starts("safe", "warn")).status == "warn"


def test_starts_stands_on_the_context_line():
    planner = StandIn({"m": planned(reasons={"safe": "x"})})
    places = {"context": Place("b.yaml", 5), "model": Place("b.yaml", 4)}
    assert result(planner=planner, places=places).checks[0].shown.line == 5
    assert result(planner=planner, places={"context": Place("other.yaml", 5)}).checks[0].shown.line == 3


def test_no_answer_is_no_pass():
    found = result(Limit("max_gpus", 8, "gpus", HERE), planner=StandIn({"m": unanswered("unknown layer", 2)}))
    assert (found.status, found.checks, found.numbers) == ("error", (), None)
    assert found.error is not None
    assert found.error.what == "unknown layer"


def test_a_number_nobody_knows_is_no_answer():
    planner = StandIn({"m": planned(tpot=Three(None, None, None))})
    found = result(Limit("max_tpot", 1, "seconds", HERE), planner=planner)
    assert found.error is not None
    assert "tpot isn't known" in found.error.what


def test_a_remark_warns_and_an_error_among_them_fails():
    assert result(remarks=(Remark("unknown-flag", "?", HERE),)).status == "warn"
    assert result(remarks=(Remark("gpu-count", "?", HERE, "error"),)).status == "fail"


NUMBERS = st.integers(0, 2**40)


@given(st.sampled_from(sorted(METRICS)), NUMBERS, NUMBERS, NUMBERS)
def test_a_looser_limit_never_breaks_what_a_tighter_one_keeps(name: str, value: int, one: int, other: int):
    metric = METRICS[name]
    planner = StandIn({"m": planned(**{metric.number: Three(value, value, value)})})
    tight, loose = (min(one, other), max(one, other)) if metric.side == "most" else (max(one, other), min(one, other))
    first, second = (row(name, bound, planner=planner).status for bound in (tight, loose))
    assert (first, second) != ("pass", "fail")
    assert row(name, value, planner=planner).status == "pass"


def test_subjects_name_local_models_as_they_were_written():
    deployment = Deployment(
        "d", Question("/home/me/repo/model.json", "h100"), Place("b.yaml", 3), written={"model": "./model.json"}
    )
    found = judge(deployment, StandIn())
    assert found.subject is not None
    assert (found.subject.model, found.subject.source) == ("./model.json", "./model.json")
    assert replace(found, subject=None).name == "d"


def test_a_budget_may_limit_what_the_table_of_metrics_has():
    from kvplan.check.budgets.fields import Limits

    assert [*Limits.model_fields] == [STARTS, *METRICS]
    for metric in METRICS.values():
        shorthand = Limits.model_fields[metric.limit].metadata[0]
        (bound,) = (each for each in get_args(Limits.model_fields[metric.limit].annotation) if each is not NoneType)
        (kind,) = get_args(bound)
        keys = set(kind.model_fields) - {"end", "level"}
        assert shorthand.key in keys
        assert keys == {shorthand.key, *(["at"] if metric.at else []), *(["batch"] if metric.timed else [])}
