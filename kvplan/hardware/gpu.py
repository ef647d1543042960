"""A GPU as a planner needs it: the memory it really offers, how fast it reads, and the source of each figure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kvplan.errors import MissingField, UsageError

Kind = Literal["vendor", "measured", "derived", "given"]

Capability = tuple[int, int]
"""NVIDIA's compute capability, as (9, 0)."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number in base units with its sources.

    kind: vendor (a datasheet), measured (printed by a driver or a benchmark), derived (computed from other facts),
    given (typed on the command line). note: how it was derived or read. alternates: what other sources say instead.

    Raises: MissingField without a source, because nothing can be planned on such a number.
    """

    value: int
    kind: Kind
    sources: tuple[str, ...]
    note: str | None = None
    alternates: tuple[Fact, ...] = ()

    def __post_init__(self) -> None:
        if not any(source.strip() for source in self.sources):
            raise MissingField("source", cause=f"the number {self.value} names no source", hint="name who states it")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, or one MIG slice of it. A package that software lists as two devices (MI250X) is two of these.

    memory: bytes that a process sees before it takes any (CUDA's total, HIP's total ...): the default of every plan.
    memory_os: the system it was read under; Windows shows a few hundred MiB more than Linux on the same card.
    memory_smi: bytes that nvidia-smi, rocm-smi, hl-smi or npu-smi prints as the total. memory_marketed: bytes as sold,
    GB = 10^9. bandwidth: bytes/s by the datasheet. bandwidth_measured: best public bytes/s of a streaming kernel.
    flops: dense FLOP/s by format (bf16, fp8, fp4, int8), by the vendor. link: bytes/s to the other GPUs of a node, both
    directions together; link_name: its name; link_domain: how many GPUs it joins. bridge: the same over a bridge that
    is sold separately. pcie: bytes/s to the host, both directions together. compute_capability: NVIDIA's, as (9, 0).
    fp8_kv_native: whether fp8 KV needs no conversion in software. unified: whether the memory is shared with the
    operating system; host_share: bytes that the host was seen to keep. devices_per_package: devices that software lists
    for one package. mig_of: the id of the GPU that this is a slice of. driver_names: the names that its driver reports.
    means: short names that other devices could answer to as well, and why they mean this one.
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
    compute_capability: Capability | None = None
    unified: bool = False
    fp8_kv_native: bool | None = None
    segment: str | None = None
    aliases: tuple[str, ...] = ()
    mig_of: str | None = None
    notes: tuple[str, ...] = ()
    memory_smi: Fact | None = None
    memory_os: str | None = None
    host_share: Fact | None = None
    devices_per_package: int = 1
    link_name: str | None = None
    link_domain: Fact | None = None
    bridge: Fact | None = None
    pcie: Fact | None = None
    driver_names: tuple[str, ...] = ()
    means: tuple[tuple[str, str], ...] = ()


def overrides(gpu: Gpu, *, memory: int | None = None, bandwidth: int | None = None) -> Gpu:
    """The GPU with `memory` (bytes) or `bandwidth` (bytes/s) given by hand; the known figure becomes an alternate.

    This is how to plan for a slice that kvplan doesn't list: a scheduler's share of a card, Windows or WSL, a power
    limit.

    Raises: UsageError for 0 or less.
    """
    if memory is not None:
        gpu = replace(gpu, memory=_given(memory, "--gpu-memory", gpu.memory), memory_os=None)
    if bandwidth is not None:
        # A measured figure belongs to the datasheet's: it says nothing about a bandwidth that was typed.
        given = _given(bandwidth, "--gpu-bandwidth", gpu.bandwidth)
        gpu = replace(gpu, bandwidth=given, bandwidth_measured=None)
    return gpu


def _given(value: int, flag: str, known: Fact) -> Fact:
    if value < 1:
        raise UsageError(f"{flag}: {value} is nothing", hint="give more than 0, or leave it out")
    return Fact(value, "given", (flag,), alternates=(replace(known, alternates=()),))
