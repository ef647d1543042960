"""How far the safe end is below the likely figure, chosen and tested on rows of unseen sources.

    margin = width x doubt         doubt: kvplan.engines.vllm.memory.doubt, by the number of sources behind each rate

The width is the smallest that keeps 99 % of the rows of other sources from being promised over 1 % too much, each of
them predicted by rates that didn't use its own source either. To test it, a whole source is left out of all of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil

from bench.accuracy.overheads import Case, Rates, fit
from kvplan.engines.vllm.memory import doubt
from kvplan.engines.vllm.memory.overhead import most
from kvplan.units import GIB

LEVEL = 0.99
TOLERANCE = 0.01
"""Share of the printed memory that may be promised too much."""


@dataclass(frozen=True)
class Knowledge:
    """What a set of sources shows: rates (bytes), and how many sources show each rate and each class of GPU."""

    rates: Rates
    sources: dict[str, int]
    classes: dict[str, int]

    def doubt(self, case: Case) -> float:
        """GiB per unit of width."""
        gpu, known = case.gpu, self.classes.get(doubt.gpu_class(case.gpu), 0)
        parts = [doubt.of_machine(gpu, known), doubt.of_counted(case.fixed * GIB)]
        shown = [known, *(self.sources.get(name, 0) for name in case.amounts)]
        for name, units in case.amounts.items():
            cost = max(self.rates.get(name, 0.0), 0.0) * units
            spread = doubt.of_spread(cost, most(name, round(units), case.flags))
            parts.append(max(doubt.of_cost(cost, self.sources.get(name, 0), gpu), spread))
        if not (all(shown) and case.held.read):
            parts.append(doubt.unseen(gpu))
        return sum(parts) / GIB

    def too_much(self, case: Case) -> float:
        """GiB by which the likely figure exceeds what may be promised."""
        return case.rest - case.predicted(self.rates) - TOLERANCE * abs(case.available)


@dataclass(frozen=True)
class SafeEnd:
    """The safe end for one row. likely, low: GiB. width: from all other sources."""

    case: Case
    likely: float
    low: float
    width: float

    @property
    def promises_too_much(self) -> bool:
        """Whether it is more than 1 % above the printed figure."""
        return self.low - self.case.available > TOLERANCE * abs(self.case.available)

    @property
    def gap(self) -> float:
        """How far it is below the likely figure, as a share of the printed one."""
        return (self.likely - self.low) / abs(self.case.available)


def learned(rows: Sequence[Case]) -> Knowledge:
    """What these rows show."""
    return Knowledge(
        rates=fit(rows),
        sources=_counted(rows, lambda case: list(case.amounts)),
        classes=_counted(rows, lambda case: [doubt.gpu_class(case.gpu)]),
    )


def width(rows: Sequence[Case]) -> float:
    """The width that these rows need."""
    return _width(rows, _leaving_out(rows), frozenset())


def safe_ends(rows: Sequence[Case]) -> list[SafeEnd]:
    """A safe end for each row, with rates, counts and width from other sources."""
    without = _leaving_out(rows)
    widths = {source: _width(rows, without, frozenset([source])) for source in {case.row.source for case in rows}}
    found = []
    for case in rows:
        known = without(frozenset([case.row.source]))
        likely = case.available + case.rest - case.predicted(known.rates)
        found.append(
            SafeEnd(case, likely, likely - widths[case.row.source] * known.doubt(case), widths[case.row.source])
        )
    return found


def _width(rows: Sequence[Case], without: Callable[[frozenset[str]], Knowledge], left_out: frozenset[str]) -> float:
    asked = [case for case in rows if case.row.source not in left_out]
    known = [without(left_out | {case.row.source}) for case in asked]
    ratios = sorted(each.too_much(case) / each.doubt(case) for case, each in zip(asked, known, strict=True))
    return max(0.0, ratios[min(ceil((len(ratios) + 1) * LEVEL), len(ratios)) - 1])


def _leaving_out(rows: Sequence[Case]) -> Callable[[frozenset[str]], Knowledge]:
    @cache
    def without(sources: frozenset[str]) -> Knowledge:
        return learned([case for case in rows if case.row.source not in sources])

    return without


def _counted(rows: Sequence[Case], names: Callable[[Case], list[str]]) -> dict[str, int]:
    shown: dict[str, set[str]] = {}
    for case in rows:
        for name in names(case):
            shown.setdefault(name, set()).add(case.row.source)
    return {name: len(sources) for name, sources in shown.items()}
