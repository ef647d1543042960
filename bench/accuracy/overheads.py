"""Rates of vLLM's overheads fitted on start-up logs, and predictions for unseen sources and models.

    total x utilization - weights - available = rates x amounts + tensors of the step

The fit uses least absolute deviations, so that the log of a broken start doesn't move a rate. Rates that no row needs
stay zero, and what follows from a tensor's type is counted, not fitted.
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
"""GiB that a planner without a model of overheads subtracts."""
LENGTH = 8192
"""Context of rows that state none. It hardly affects overheads."""
TYPED = frozenset(("logits copied to fp32", "logits as they are"))
"""Rates that follow from the types of tensors."""

Rates = dict[str, float]


@dataclass(frozen=True)
class Case:
    """One row that prints weights and available memory, and states everything else."""

    row: Row
    model: Model
    gpu: Gpu

    @cached_property
    def held(self) -> Rules:
        """The rates of the row's version, or of the newest if it is unknown."""
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
        """The same by other rates."""
        options = self.row.options
        weights = loaded(self.model, self.gpu, self.flags.parallel, options, held)
        return budget(self.model, self.gpu, self.flags, held, options, weights).kv

    @cached_property
    def usable(self) -> float:
        """GiB that vLLM may use."""
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
        """Name of the rate for its logits."""
        return f"logits {runner.sampler(self.model, self.gpu, self.flags, self.held)}"

    @cached_property
    def peak(self) -> Peak:
        """Peak of the profiling run, at kvplan's rates."""
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
        """GiB that are neither weights nor cache, at these rates (bytes)."""
        return self.fixed + sum(rates.get(name, 0.0) * units for name, units in self.amounts.items()) / GIB

    def error(self, rates: Rates) -> float:
        """Relative error of the predicted cache."""
        return (self.rest - self.predicted(rates)) / abs(self.available)

    @property
    def flat_error(self) -> float:
        """The same for the flat constant."""
        return (self.rest - FLAT) / abs(self.available)


def cases(rows: Iterable[Row]) -> list[Case]:
    """The rows that kvplan can be asked about, one for each start."""
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
    """Rates with the least sum of absolute errors, by iteratively reweighted least squares."""
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
    """For each row, the rates fitted to the rows of all other groups."""
    fits = {name: fit([case for case in rows if group(case) != name]) for name in {group(case) for case in rows}}
    return [fits[group(case)] for case in rows]
