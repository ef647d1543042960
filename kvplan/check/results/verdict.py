"""How a check ended, as an exit code."""

from __future__ import annotations

from typing import Literal

from kvplan.report.schema.check import CheckReport

FailOn = Literal["error", "warn"]


def exit_code(report: CheckReport, fail_on: FailOn, *, allow_nothing: bool = False) -> int:
    """0 all kept, 1 a limit is broken (or, failing on warnings, anything warned), 2 or 3 when there is no answer.

    A definite no outweighs a missing answer. Nothing checked is 2, unless that is allowed.
    """
    answered = [result for result in report.results if result.error is None]
    codes = _missing(report)
    if not answered and (codes or not allow_nothing):
        return 3 if 3 in codes else 2
    summary = report.summary
    removed = any(compared.removed for compared in report.compared if compared.kind == "lock")
    warned = summary.warned or summary.unread or removed
    if summary.failed or (fail_on == "warn" and warned):
        return 1
    return max(codes, default=0)


def _missing(report: CheckReport) -> set[int]:
    return {result.error.exit_code for result in report.results if result.error is not None}


def forgiving(report: CheckReport, code: int) -> int:
    """The exit code of a report that fails nobody: broken limits are told and pass; a missing answer stays one."""
    return max(_missing(report), default=0) if code == 1 else code
