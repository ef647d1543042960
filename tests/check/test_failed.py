"""kvplan itself fails at one deployment: the others keep their answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check

from kvplan.check.plans.planner import CachingPlanner
from kvplan.check.plans.work import Work

BUDGET = """\
kvplan-budget: 1
defaults: {gpu: h100, context: 8k}
deployments:
  broken: {model: llama-3-8b, concurrency: 7}
  whole: {model: llama-3-8b}
"""


@pytest.fixture
def broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = Work.numbers

    def failing(work: Work) -> object:
        return 1 / 0 if work.question.concurrency == 7 else numbers(work)

    monkeypatch.setattr(Work, "numbers", failing)
    (folder / "kvplan-budget.yaml").write_text(BUDGET)


@pytest.mark.usefixtures("broken")
def test_only_its_own_answer_is_lost():
    found = check("--json")
    first, second = found.document["results"]
    assert found.code == 2
    assert (first["status"], second["status"]) == ("error", "pass")
    assert first["error"]["what"] == "kvplan failed: ZeroDivisionError"
    assert "--debug" in first["error"]["hint"]
    assert "Traceback" not in found.err
    assert "broken can't be planned: kvplan failed: ZeroDivisionError" in " ".join(check().out.split())


@pytest.mark.usefixtures("broken")
def test_the_traceback_is_shown_when_asked_for():
    found = check("--debug")
    assert "ZeroDivisionError" in found.err
    assert "Traceback" in found.err
    assert "whole" in found.out


def test_a_missing_attribute_is_no_answer_either(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CachingPlanner, "plan", None)
    (folder / "kvplan-budget.yaml").write_text(BUDGET)
    found = check("--json")
    assert [result["status"] for result in found.document["results"]] == ["error", "error"]
