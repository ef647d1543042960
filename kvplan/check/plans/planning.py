"""What `check` asks a planner, and what it gets: the three ends of every number, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kvplan.check.budgets.budget import Question
from kvplan.errors import Problem
from kvplan.report.schema.check import End, Subject, Three


@dataclass(frozen=True, slots=True)
class Planned:
    """An answer. subject: what was planned, names looked up: what a lock remembers besides numbers.

    numbers: by the names of kvplan.check.results.metrics. reasons: why it doesn't start, by each end that it doesn't.
    suggestion: a single change that would make it start. short: whether it is memory that it lacks, by the safe end.
    """

    subject: Subject
    numbers: Mapping[str, Three]
    reasons: Mapping[End, str] = field(default_factory=dict)
    suggestion: str | None = None
    short: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer. exit_code: 2 for what can't be planned, 3 for the network. keys: of the budget, that it is about."""

    problem: Problem
    exit_code: int
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A no without numbers: what the engine refuses to start with, whatever the memory. keys: of the budget, that it is about."""

    problem: Problem
    keys: tuple[str, ...] = ()


Outcome = Planned | Refused | Unanswered


class Planner(Protocol):
    """Whoever answers questions. The same question twice costs once."""

    def plan(self, question: Question) -> Outcome:
        """The answer; never an exception for input that can't be planned."""
