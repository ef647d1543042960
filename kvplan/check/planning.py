"""What `check` asks of a planner, and what it gets: three ends of every number, or why there is no answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kvplan.check.budget import End, Question
from kvplan.errors import Problem


@dataclass(frozen=True, slots=True)
class Ends:
    """One number as promised, as likely, and by the textbook formula; None where it isn't known (or has no limit)."""

    safe: float | None
    likely: float | None
    ideal: float | None

    @classmethod
    def exactly(cls, value: float | None) -> Ends:
        """A number without doubt."""
        return cls(value, value, value)

    def at(self, end: End) -> float | None:
        """The value at one end."""
        return {"safe": self.safe, "likely": self.likely, "ideal": self.ideal}[end]


@dataclass(frozen=True, slots=True)
class Identity:
    """What was planned, names looked up: what a lock remembers besides numbers.

    revision: the Hub's commit, or the digest of a file's content. options: flags that were given or assumed.
    """

    model: str
    source: str
    revision: str | None
    engine: str
    version: str | None
    gpu: str
    gpus: int
    gpu_memory: int
    parallel: Mapping[str, int]
    context: int
    kv_dtype: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """An answer. numbers: by the names of kvplan.check.metrics. reasons: why it doesn't start, by each end that it doesn't.

    suggestion: a single change that would make it start.
    """

    identity: Identity
    numbers: Mapping[str, Ends]
    reasons: Mapping[End, str] = field(default_factory=dict)
    suggestion: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer. exit_code: 2 for what can't be planned, 3 for the network. keys: of the budget, that it is about."""

    problem: Problem
    exit_code: int
    keys: tuple[str, ...] = ()


Outcome = Planned | Unanswered


class Planner(Protocol):
    """Whoever answers questions. The same question twice costs once."""

    def plan(self, question: Question) -> Outcome:
        """The answer; never an exception for input that can't be planned."""
