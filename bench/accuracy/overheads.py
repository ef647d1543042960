"""Rates of vLLM's overheads fitted on start-up logs, and how well fits that never saw a source or a model predict it.

    total x utilization - weights - available = rates x amounts + what the step's tensors come to

Least absolute deviations, so that a log of a broken start doesn't move a rate; rates that no row of a fit needs stay zero,
and what a tensor's type says is counted, not fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from bench.accuracy.rows import Row
from kvplan.arch.model import Model
from kvplan.engines.base import Range, Setup
from kvplan.engines.vllm.memory import runner
from kvplan.engines.vllm.memory.budget import budget, loaded
from kvplan.engines.vllm.memory.overhead import COSTS, Peak, amounts, peak
from kvplan.engines.vllm.memory.step import steps
from kvplan.engines.vllm.settings import Settings, settings
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import NEWEST
from kvplan.hardware.gpu import Gpu
from kvplan.units import GIB

FLAT = 4.5
"""GiB that a planner without a model of overheads takes off."""
LENGTH = 8192
"""Context of rows that name none; it hardly matters to overheads."""
TYPED = frozenset(("logits copied to fp32", "logits as they are"))
"""Rates that the types of tensors say."""

Rates = dict[str, float]


@dataclass(frozen=True)
class Case:
    """One row that prints weights and available memory, with everything else known."""

    row: Row
    model: Model
    gpu: Gpu

    @cached_property
    def held(self) -> Rules:
        """Of the row's version, the newest where none is known."""
        return replace(rules(self.row.version or NEWEST), read=self.row.version is not None)

    @cached_property
    def flags(self) -> Settings:
        """Every flag resolved."""
        row = self.row
        return settings(Setup(self.model, self.gpu, row.parallel, None, row.options, row.length or LENGTH), self.held)

    @property
    def kv(self) -> Range:
        """Bytes that kvplan leaves for the cache."""
        return self.kv_with(self.held)

    def kv_with(self, held: Rules) -> Range:
        """The same by other rules."""
        options = self.row.options
        weights = loaded(self.model, self.gpu, self.flags.parallel, options, held)
        return budget(self.model, self.gpu, self.flags, held, options, weights).kv

    @cached_property
    def usable(self) -> float:
        """GiB, as vLLM takes them."""
        share = self.row.options.utilization or self.held.utilization
        return ceil(self.gpu.memory.value * share) / GIB

    @property
    def available(self) -> float:
        """GiB that the log prints."""
        return float(self.row.reported["available_kv_gib"])

    @property
    def rest(self) -> float:
        """GiB that are neither weights nor cache."""
        return self.usable - float(self.row.reported["weights_gib"]) - self.available

    @property
    def logits(self) -> str:
        """Name of the rate of its logits."""
        return f"logits {runner.sampler(self.model, self.gpu, self.flags, self.held)}"

    @cached_property
    def peak(self) -> Peak:
        """Of the profile, with the rates that kvplan uses."""
        counted = steps(self.model, self.gpu, self.flags, self.held, self.row.options).likely
        return peak(counted, COSTS[self.logits])

    @cached_property
    def amounts(self) -> Rates:
        """Units of each rate."""
        found: Rates = dict(amounts(self.model, self.gpu, self.flags, self.held, self.row.options))
        if self.logits not in TYPED:
            found[self.logits] = self.peak.words
        return {name: units for name, units in found.items() if units}

    @cached_property
    def fixed(self) -> float:
        """GiB that are counted, not fitted."""
        typed = self.peak.words * COSTS[self.logits].likely if self.logits in TYPED else 0.0
        return (self.peak.counted + typed) / GIB

    def predicted(self, rates: Rates) -> float:
        """GiB that are neither weights nor cache, by these rates (bytes)."""
        return self.fixed + sum(rates.get(name, 0.0) * units for name, units in self.amounts.items()) / GIB

    def error(self, rates: Rates) -> float:
        """How much more cache is predicted than printed, as a share of what is printed."""
        return (self.rest - self.predicted(rates)) / abs(self.available)

    @property
    def flat_error(self) -> float:
        """The same for a flat constant."""
        return (self.rest - FLAT) / abs(self.available)


def cases(rows: Iterable[Row]) -> list[Case]:
    """Rows that can be asked, one for each start."""
    needed = {"weights_gib", "available_kv_gib"}
    return [
        Case(row, row.model, row.gpu)
        for row in rows
        if needed <= set(row.reported) and row.model and row.gpu and row.options.utilization
    ]


def published() -> Rates:
    """The likely rates that kvplan uses."""
    return {name: cost.likely for name, cost in COSTS.items()}


def fit(rows: Sequence[Case]) -> Rates:
    """Rates with the least sum of absolute errors, found by reweighting least squares."""
    names = sorted({name for case in rows for name in case.amounts})
    scale = np.array([max(case.amounts.get(name, 0.0) for case in rows) for name in names])
    table = np.array([[case.amounts.get(name, 0.0) for name in names] for case in rows]) / scale
    wanted = np.array([case.rest - case.fixed for case in rows])
    weights, found = np.ones(len(rows)), np.zeros(len(names))
    for _ in range(200):
        pulled = table * weights[:, None]
        found = np.linalg.solve(pulled.T @ table + 1e-6 * np.eye(len(names)), pulled.T @ wanted)
        weights = 1 / np.maximum(np.abs(wanted - table @ found), 0.01)
    return {name: float(rate) * GIB / float(size) for name, rate, size in zip(names, found, scale, strict=True)}


def held_out(rows: Sequence[Case], group: Callable[[Case], str]) -> list[Rates]:
    """For each row, rates of a fit to the rows of all other groups."""
    fits = {name: fit([case for case in rows if group(case) != name]) for name in {group(case) for case in rows}}
    return [fits[group(case)] for case in rows]
