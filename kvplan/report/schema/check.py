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
    """Path of the file, as given."""
    line: int
    """Line number, counted from 1."""


@dataclass(frozen=True, slots=True)
class Three:
    """One number by each end of its range; null where unknown (max_context: without limit)."""

    safe: float | None
    """The end that a plan promises."""
    likely: float | None
    """The likely value."""
    ideal: float | None
    """The value by the textbook formula."""

    @classmethod
    def exactly(cls, value: float | None) -> Three:
        """A number that is the same by every end."""
        return cls(value, value, value)

    def at(self, end: End) -> float | None:
        """The value at one end: `safe`, `likely` or `ideal`."""
        value: float | None = getattr(self, end)
        return value


@dataclass(frozen=True, slots=True)
class Subject:
    """The deployment that was planned."""

    model: str
    """Name of the model."""
    source: str
    """Where its config came from."""
    revision: str | None
    """The Hub's commit, or a digest of a local description; null for bundled models."""
    engine: str
    """The engine whose rules were used."""
    version: str | None
    """Release of the engine; null for the formula."""
    gpu: str
    """kvplan's id of the GPU."""
    gpus: int
    """Number of GPUs."""
    gpu_memory: int
    """Bytes of memory of one GPU."""
    parallel: Mapping[str, int]
    """Parallel sizes, by name."""
    context: int
    """Tokens of one sequence."""
    kv_dtype: str
    """Format of the cache, written K:V where keys and values differ."""
    options: Mapping[str, str]
    """The engine's flags, given or assumed."""
    weights_basis: str = "config"
    """What the bytes of the weights were computed from: config, or headers (the checkpoint's own)."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One limit that was checked, or one remark."""

    rule: str
    """Stable id of the rule."""
    status: Status
    """Result of the check."""
    level: Level
    """Severity of a broken limit."""
    end: End
    """The end of the number's range that was compared with the limit."""
    side: Side | None
    """Whether the limit is a maximum (most) or a minimum (least); null for rules without a limit."""
    limit: float | None
    """The limit, in `unit`; null for rules without one."""
    actual: float | None
    """The number that was compared, in `unit`."""
    unit: str | None
    """Unit of `limit` and `actual`."""
    tokens: int | None
    """Tokens of the sequences that the limit is about."""
    shown: At
    """The line that an annotation points to."""
    message: str
    """The result in one sentence, with its numbers."""
    hint: str | None = None
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One input or number that changed."""

    kind: Literal["input", "number"]
    """Whether it is an input of the plan or a number of its result."""
    name: str
    """Name of the input or number."""
    before: Scalar
    """The value compared with."""
    after: Scalar
    """The value now."""
    unit: str | None = None
    """Unit of a number; null for an input."""
    end: End | None = None
    """The end of the number's range; null for an input."""
    at: At | None = None
    """The line that states the input; null for a number."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a deployment has no answer."""

    what: str
    """What went wrong."""
    cause: str | None
    """Why it went wrong."""
    hint: str | None
    """What to do next."""
    exit_code: int
    """2 for a deployment that can't be planned, 3 for trouble with the network."""
    shown: At | None = None
    """The line of the value at fault; null where it is the deployment's own."""


@dataclass(frozen=True, slots=True)
class Result:
    """One deployment and its checks."""

    name: str
    """Name of the deployment."""
    status: Status
    """The most severe status of its checks."""
    at: At
    """The line that it is defined at."""
    subject: Subject | None
    """What was planned; null without an answer, and where the engine refuses the flags."""
    numbers: Mapping[str, Three] | None
    """The numbers of the plan, by name; null where `subject` is null."""
    checks: tuple[CheckRow, ...]
    """Every rule that was checked."""
    error: Trouble | None
    """Why there is no answer; null where there is one."""
    change: Literal["added", "changed", "same"] | None
    """How it compares with the lock or the revision; null where it is compared with neither."""
    moved: tuple[Moved, ...]
    """Inputs and numbers that changed."""
    warnings: tuple[str, ...]
    """What to know before trusting the answer."""


@dataclass(frozen=True, slots=True)
class NotRead:
    """Something that looked like a deployment and couldn't be read."""

    what: str
    """What couldn't be read."""
    why: str
    """Why it couldn't be read."""
    at: At
    """The line that it starts at."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What this run was compared with."""

    kind: Literal["lock", "git"]
    """A lock file, or a revision of the repository."""
    name: str
    """Name of the file or revision."""
    revision: str | None
    """The commit that the revision stands for."""
    removed: tuple[str, ...]
    """Deployments that no longer exist."""
    note: str | None = None
    """What was wrong with it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of deployments, and of what they were checked for."""

    deployments: int
    """All deployments."""
    passed: int
    """Deployments within every limit."""
    warned: int
    """Deployments with a remark or a broken limit of level warn."""
    failed: int
    """Deployments with a broken limit of level error."""
    unanswered: int
    """Deployments that couldn't be planned."""
    unread: int
    """Things that couldn't be read."""
    checks: int
    """Checks of all deployments."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `kvplan check` prints."""

    schema: str
    """Id of this document: `kvplan.check/1`."""
    kvplan: str
    """Version of kvplan."""
    passed: bool
    """Whether there was something to check, all of it was answered, and no limit was broken."""
    summary: Summary
    """Number of deployments, by how they ended."""
    results: tuple[Result, ...]
    """One result for each deployment."""
    unread: tuple[NotRead, ...]
    """Everything that couldn't be read."""
    compared: tuple[Compared, ...]
    """The lock or revision compared with, and the deployments that are gone."""
    locks: tuple[str, ...]
    """Lock files that this run wrote."""
