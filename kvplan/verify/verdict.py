"""The verdict of a check, from its prediction and its measurement. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kvplan.report.schema.verify import Check, Outcome, Unit, Verdict

OUT_OF_TIME = "out of time: a larger --budget-s does it"


@dataclass(frozen=True, slots=True)
class Row:
    """A prediction and its verdict.

    rule: how far `measured` may be from `predicted`, in words; for `not run`, why not; for `reported`, why nothing is
    claimed. rank: the tensor rank that measured it. core: whether it is about a cache, without which a run confirms
    nothing.
    """

    check: Check
    what: str
    unit: Unit
    predicted: float | None
    measured: float | None
    verdict: Verdict
    rule: str
    rank: int = 0
    core: bool = False

    @property
    def error(self) -> float | None:
        """Signed, (measured - predicted) / predicted; for a difference, the difference itself."""
        if self.predicted is None or self.measured is None:
            return None
        if self.unit == "difference" or not self.predicted:
            return self.measured - self.predicted
        return (self.measured - self.predicted) / self.predicted


def exact(check: Check, what: str, unit: Unit, predicted: int, measured: int, *, core: bool = False) -> Row:
    """Refuted unless they are equal."""
    return Row(check, what, unit, predicted, measured, _said(predicted == measured), "exactly equal", core=core)


def within(check: Check, what: str, unit: Unit, predicted: float, measured: float, allowed: float, because: str) -> Row:
    """Refuted if they are more than `allowed` (in the unit) apart."""
    return Row(check, what, unit, predicted, measured, _said(abs(measured - predicted) <= allowed), because)


def at_least(check: Check, what: str, unit: Unit, predicted: float, measured: float, because: str) -> Row:
    """The prediction is a lower bound."""
    return Row(check, what, unit, predicted, measured, _said(measured >= predicted), because)


def at_most(check: Check, what: str, unit: Unit, predicted: float, measured: float, because: str) -> Row:
    """The prediction is an upper bound."""
    return Row(check, what, unit, predicted, measured, _said(measured <= predicted), because)


def reported(check: Check, what: str, unit: Unit, predicted: float | None, measured: float, because: str) -> Row:
    """Measured and shown; nothing is claimed."""
    return Row(check, what, unit, predicted, measured, "reported", because)


def not_run(
    check: Check, what: str, unit: Unit, because: str, predicted: float | None = None, *, core: bool = False
) -> Row:
    """Not measured, and why."""
    return Row(check, what, unit, predicted, None, "not run", because, core=core)


def _said(holds: bool) -> Verdict:  # noqa: FBT001 - the one place where a comparison becomes a word
    return "confirmed" if holds else "refuted"


_WORST = ("confirmed", "reported", "not run", "refuted")
"""Verdicts, the worst first. A comparison that one rank couldn't make isn't confirmed by another's."""


def worst(rows_of_ranks: tuple[tuple[Row, ...], ...]) -> tuple[Row, ...]:
    """One row for each check, from the rank that is furthest off. A check that only some ranks made is kept.

    If a rank uses a name several times, it stands for as many checks.
    """
    found: dict[tuple[str, str, int], list[Row]] = {}
    for rows in rows_of_ranks:
        seen: Counter[tuple[str, str]] = Counter()
        for row in rows:
            key = (row.check, row.what)
            found.setdefault((*key, seen[key]), []).append(row)
            seen[key] += 1
    return tuple(max(same, key=_badness) for same in found.values())


def _badness(row: Row) -> tuple[int, float]:
    return _WORST.index(row.verdict), abs(row.error or 0.0)


def outcome(rows: tuple[Row, ...]) -> Outcome | None:
    """The verdict of a run: refuted if a row is, confirmed if a row about a cache is, None if no cache was compared."""
    if any(row.verdict == "refuted" for row in rows):
        return "refuted"
    return "confirmed" if any(row.core and row.verdict == "confirmed" for row in rows) else None
