"""Findings of a check: everything that a person should look at. Annotations and SARIF are made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kvplan.report.schema.check import At, CheckReport, Result

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding at one place.

    subject: the deployment (or file) that it is about. key: identifies the same finding in the next run.
    """

    rule: str
    severity: Severity
    subject: str
    message: str
    at: At
    key: str


Rule = Literal["unanswered", "lock-drift", "not-read"]

RULES: dict[Rule, str] = {
    "unanswered": "Every deployment can be planned.",
    "lock-drift": "Every deployment is as its lock has it.",
    "not-read": "Every serve command can be read.",
}
"""Rules of the report itself, besides those of its checks, each with a sentence."""

DRIFT: Rule = "lock-drift"
"""The rule that deployments match their lock. It only warns."""

_SEVERITIES: dict[str, Severity] = {"fail": "error", "warn": "warning"}


def findings(report: CheckReport) -> tuple[Finding, ...]:
    """All findings: errors first, then by file and line."""
    found = [finding for result in report.results for finding in _of(result)]
    found += [
        Finding("not-read", "note", entry.what, f"{entry.what} was not read: {entry.why}", entry.at, entry.what)
        for entry in report.unread
    ]
    found += [
        Finding(DRIFT, "warning", name, f"{name} is in {compared.name} and no longer checked; kvplan check --update "
                "takes it out", At(compared.name, 1), f"{name}/removed")
        for compared in report.compared if compared.kind == "lock" for name in compared.removed
    ]  # fmt: skip
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda one: (order.index(one.severity), one.at.file, one.at.line, one.subject)))


def _of(result: Result) -> Iterator[Finding]:
    if result.error is not None:
        error = result.error
        said = ". ".join(part.rstrip(".") for part in (error.what, error.cause, error.hint) if part)
        message = f"{result.name} can't be planned: {said}"
        yield Finding("unanswered", "error", result.name, message, error.shown or result.at, result.name)
    for row in result.checks:
        if row.status in _SEVERITIES:
            message = f"{result.name}: {row.message}" + (f". {row.hint}" if row.hint else "")
            key = f"{result.name}/{row.rule}/{row.end}/{row.tokens if row.limit is not None else ''}"
            yield Finding(row.rule, _SEVERITIES[row.status], result.name, message, row.shown, key)


def relative(file: str, root: str, folder: str) -> str:
    """The path of `file` (relative to `folder`) from `root`, with slashes. Outside `root` it is returned as it is."""
    from pathlib import PurePath

    path = PurePath(folder, file)
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in {".", ".."}:
            parts.append(part)
    plain = PurePath(*parts) if parts else path
    return plain.relative_to(root).as_posix() if plain.is_relative_to(root) else PurePath(file).as_posix()
