"""The document of `kvplan check`, as dataclasses: its JSON, and what tables, annotations, JUnit and SARIF are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Scalar = int | float | str | bool | None

SCHEMA = "kvplan.check/1"

Status = Literal["error", "fail", "warn", "pass"]
Level = Literal["error", "warn"]
End = Literal["safe", "likely", "ideal"]
"""Which end of an uncertain number a limit compares: what is promised, what is probable, or the textbook formula."""
Side = Literal["most", "least"]

RANKS: dict[Status, int] = {"error": 0, "fail": 1, "warn": 2, "pass": 3}
"""Statuses, the gravest first. error: no answer. fail: a broken limit. warn: a broken limit of level warn, or a remark."""


@dataclass(frozen=True, slots=True)
class At:
    """A line of a file."""

    file: str
    """Its path as it was given."""
    line: int
    """From 1."""


@dataclass(frozen=True, slots=True)
class Three:
    """A number by each end; null where unknown (max_context: without limit)."""

    safe: float | None
    """As promised."""
    likely: float | None
    """As likely."""
    ideal: float | None
    """By the textbook formula."""

    @classmethod
    def exactly(cls, value: float | None) -> Three:
        """A number without doubt."""
        return cls(value, value, value)

    def at(self, end: End) -> float | None:
        """The value at one end: `safe`, `likely` or `ideal`."""
        value: float | None = getattr(self, end)
        return value


@dataclass(frozen=True, slots=True)
class Subject:
    """What was planned."""

    model: str
    """Its name."""
    source: str
    """Where its config came from."""
    revision: str | None
    """The Hub's commit, or a digest of a local description; null for bundled models."""
    engine: str
    """Whose rules."""
    version: str | None
    """The engine's release; null for the formula."""
    gpu: str
    """kvplan's name for the kind."""
    gpus: int
    """How many."""
    gpu_memory: int
    """Bytes of one."""
    parallel: Mapping[str, int]
    """Parallel sizes."""
    context: int
    """Tokens of one sequence."""
    kv_dtype: str
    """Format of the cache; K:V where they differ."""
    options: Mapping[str, str]
    """The engine's flags, given or assumed."""
    weights_basis: str = "config"
    """What the bytes of the weights are worked out from: config, or headers (the checkpoint's own)."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One thing that was checked, or remarked."""

    rule: str
    """Its stable name."""
    status: Status
    """What came of it."""
    level: Level
    """How grave a broken limit is."""
    end: End
    """The end of the number that was held against it."""
    side: Side | None
    """Whether the limit is the most or the least; null for rules without one."""
    limit: float | None
    """The bound; null for rules without one."""
    actual: float | None
    """In `unit`."""
    unit: str | None
    """Of limit and actual."""
    tokens: int | None
    """Of the sequences it is about."""
    shown: At
    """Where an annotation belongs."""
    message: str
    """A sentence with the numbers in."""
    hint: str | None = None
    """What would help."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One thing that is not as it was."""

    kind: Literal["input", "number"]
    """What is planned, or a number of the plan."""
    name: str
    """Of the input or number."""
    before: Scalar
    """As compared with."""
    after: Scalar
    """Now."""
    unit: str | None = None
    """Of a number."""
    end: End | None = None
    """Of a number."""
    at: At | None = None
    """Where an input is written."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no answer."""

    what: str
    """Went wrong."""
    cause: str | None
    """Why."""
    hint: str | None
    """What to do."""
    exit_code: int
    """2 for what can't be planned, 3 for the network."""
    shown: At | None = None
    """The line of the value that it is about; null for the deployment's own."""


@dataclass(frozen=True, slots=True)
class Result:
    """One deployment."""

    name: str
    """Its name."""
    status: Status
    """The gravest of its checks."""
    at: At
    """Where it is written."""
    subject: Subject | None
    """What was planned; null without an answer, and where the engine refuses its flags."""
    numbers: Mapping[str, Three] | None
    """By their names; null where `subject` is."""
    checks: tuple[CheckRow, ...]
    """Every rule that was looked at."""
    error: Trouble | None
    """Why there is no answer; else null."""
    change: Literal["added", "changed", "same"] | None
    """Against what it is compared with; null where nothing is."""
    moved: tuple[Moved, ...]
    """What is not as it was."""
    warnings: tuple[str, ...]
    """What to know before trusting it."""


@dataclass(frozen=True, slots=True)
class NotRead:
    """What looked like something to check and couldn't be read."""

    what: str
    """It."""
    why: str
    """Why not."""
    at: At
    """Where it is written."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What this run was compared with."""

    kind: Literal["lock", "git"]
    """A lock file, or a revision of the repository."""
    name: str
    """Of the file or revision."""
    revision: str | None
    """The commit."""
    removed: tuple[str, ...]
    """Deployments that are gone."""
    note: str | None = None
    """What was amiss."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How many deployments ended how."""

    deployments: int
    """All."""
    passed: int
    """Within every limit."""
    warned: int
    """With a broken limit of level warn, or a remark."""
    failed: int
    """With a broken limit."""
    unanswered: int
    """That couldn't be planned."""
    unread: int
    """Things that couldn't be read."""
    checks: int
    """Rows of all deployments."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`kvplan check`."""

    schema: str
    """`kvplan.check/1`."""
    kvplan: str
    """Its version."""
    passed: bool
    """Whether there was something to check, and all of it was answered and kept its limits."""
    summary: Summary
    """How many ended how."""
    results: tuple[Result, ...]
    """One for each deployment."""
    unread: tuple[NotRead, ...]
    """What couldn't be read."""
    compared: tuple[Compared, ...]
    """With what, and what is gone."""
    locks: tuple[str, ...]
    """Files that this run wrote."""
