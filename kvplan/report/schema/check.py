"""The document of `kvplan check`, as dataclasses: its JSON, and what tables, annotations, JUnit and SARIF are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = int | float | str | bool | None

SCHEMA = "kvplan.check/1"

RANKS = {"error": 0, "fail": 1, "warn": 2, "pass": 3}
"""Statuses, the gravest first. error: no answer. fail: a broken limit. warn: a broken limit of level warn, or a remark."""


@dataclass(frozen=True, slots=True)
class At:
    """A line (from 1) of a file, by its path as it was given."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Three:
    """A number as promised, as likely, and by the textbook formula; null where unknown (max_context: without limit)."""

    safe: float | None
    likely: float | None
    ideal: float | None

    @classmethod
    def exactly(cls, value: float | None) -> Three:
        """A number without doubt."""
        return cls(value, value, value)

    def at(self, end: str) -> float | None:
        """The value at one end: `safe`, `likely` or `ideal`."""
        value: float | None = getattr(self, end)
        return value


@dataclass(frozen=True, slots=True)
class Subject:
    """What was planned. options: the engine's flags, given or assumed.

    weights_basis: what the bytes of the weights are worked out from: config, or headers (the checkpoint's own).
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
    options: Mapping[str, str]
    weights_basis: str = "config"


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One thing that was checked, or remarked.

    rule: its stable name. limit: the bound, null for rules without one. side: `most` or `least`. actual: in `unit`.
    tokens: of the sequences it is about. shown: where an annotation belongs. message: a sentence with the numbers in.
    """

    rule: str
    status: str
    level: str
    end: str
    side: str | None
    limit: float | None
    actual: float | None
    unit: str | None
    tokens: int | None
    shown: At
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """One thing that is not as it was. kind: `input` (what is planned) or `number`. end: of a number. at: of an input."""

    kind: str
    name: str
    before: Scalar
    after: Scalar
    unit: str | None = None
    end: str | None = None
    at: At | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no answer. shown: the line of the value that it is about; null for the deployment's own."""

    what: str
    cause: str | None
    hint: str | None
    exit_code: int
    shown: At | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One deployment. change: `added`, `changed`, `same`, or null where nothing is compared."""

    name: str
    status: str
    at: At
    subject: Subject | None
    numbers: Mapping[str, Three] | None
    checks: tuple[CheckRow, ...]
    error: Trouble | None
    change: str | None
    moved: tuple[Moved, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotRead:
    """What looked like something to check and couldn't be read."""

    what: str
    why: str
    at: At


@dataclass(frozen=True, slots=True)
class Compared:
    """What this run was compared with. kind: `lock` or `git`. removed: deployments that are gone. note: what was amiss."""

    kind: str
    name: str
    revision: str | None
    removed: tuple[str, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """How many deployments ended how. checks: rows of all of them; unread: of the document's list."""

    deployments: int
    passed: int
    warned: int
    failed: int
    unanswered: int
    unread: int
    checks: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`kvplan check`. passed: whether there was something to check, and all of it was answered and kept its limits.

    locks: files that this run wrote.
    """

    schema: str
    kvplan: str
    passed: bool
    summary: Summary
    results: tuple[Result, ...]
    unread: tuple[NotRead, ...]
    compared: tuple[Compared, ...]
    locks: tuple[str, ...]
