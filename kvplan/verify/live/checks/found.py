"""The results of a run, from the layers that it chose to its rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvplan.arch.model import Model
from kvplan.hardware.gpu import Gpu
from kvplan.verify.live.checks.timing import Times
from kvplan.verify.live.machine import Machine
from kvplan.verify.parts import Blueprint
from kvplan.verify.predict import Predicted
from kvplan.verify.sizing import Sizing
from kvplan.verify.verdict import Row


@dataclass(slots=True)
class Found:
    """The results of a run.

    limit: bytes for everything. pool: bytes of cache with which a CPU is filled, unless more is asked for. spare: bytes
    that a CPU keeps for torch's own modules and for what a step makes. kv: the predictions.
    """

    machine: Machine
    gpu: Gpu | None
    model: Model
    plan: Blueprint
    sizing: Sizing
    limit: int
    pool: int
    spare: int
    rank: int | None
    kv: Predicted
    rows: tuple[Row, ...] = ()
    times: Times | None = None
    weights_bytes: int = 0
    runtime_bytes: int | None = None
    notes: list[str] = field(default_factory=list)
