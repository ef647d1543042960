"""A GPU as a planner needs it: what its memory really offers, how fast it reads, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["vendor", "measured", "derived", "given"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One number in base units, who it comes from, and how much that is worth.

    kind: vendor (a datasheet), measured (what a driver or a benchmark printed), derived (worked out from other facts),
    given (typed on the command line).
    """

    value: int
    kind: Kind
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, or one MIG slice of it.

    memory: bytes that a process sees before it takes any (CUDA's total, HIP's total ...): the default of every plan.
    memory_marketed: bytes as sold, GB = 10^9. bandwidth: bytes/s from the datasheet. bandwidth_measured: best bytes/s
    that a streaming kernel reached in public. flops: dense FLOP/s by format (bf16, fp8, fp4, int8), vendor figures.
    link: bytes/s to the other GPUs of a node, both directions together. compute_capability: NVIDIA's, as (9, 0).
    unified: memory shared with the operating system. fp8_kv_native: whether fp8 KV needs no software conversion.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    memory: Fact
    bandwidth: Fact
    memory_marketed: Fact | None = None
    bandwidth_measured: Fact | None = None
    flops: tuple[tuple[str, Fact], ...] = ()
    link: Fact | None = None
    memory_type: str | None = None
    compute_capability: tuple[int, int] | None = None
    unified: bool = False
    fp8_kv_native: bool | None = None
    segment: str | None = None
    aliases: tuple[str, ...] = ()
    mig_of: str | None = None
    notes: tuple[str, ...] = ()
