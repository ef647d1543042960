"""The page of `kvplan gpus`."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.report.blocks import Block, Column, Facts, Heading, Note, Table
from kvplan.report.schema import lists as schema
from kvplan.units import format_bytes


def view(report: schema.GpusReport) -> tuple[Block, ...]:
    """One row per GPU, or everything about a single one."""
    if len(report.gpus) == 1:
        return tuple(_one_gpu(report.gpus[0]))
    columns = (
        Column("gpu", right=False, shrink=True),
        Column("memory"),
        Column("bandwidth"),
        Column("dense bf16"),
        Column("architecture", right=False, shrink=True),
        Column("also called", right=False, shrink=True),
    )
    rows = tuple(
        (
            gpu.id,
            format_bytes(gpu.memory.value),
            _bandwidth(gpu.bandwidth.value),
            _flops(gpu.flops["bf16"].value) if "bf16" in gpu.flops else "-",
            gpu.architecture,
            ", ".join(gpu.aliases[:3]),
        )
        for gpu in report.gpus
    )
    return (
        Table(columns, rows),
        Note("Memory is what a process sees. kvplan gpus ID shows every fact and its sources."),
    )


def _one_gpu(gpu: schema.ListedGpu) -> Iterator[Block]:
    yield Heading(f"{gpu.id}: {gpu.name}, {gpu.architecture}")
    facts = [
        (f"memory a process sees{f', {gpu.memory_os}' if gpu.memory_os else ''}", gpu.memory, format_bytes),
        ("memory, nvidia-smi or alike", gpu.memory_smi, format_bytes),
        ("memory as sold", gpu.memory_marketed, _decimal),
        ("memory that the host keeps", gpu.host_share, format_bytes),
        ("bandwidth, datasheet", gpu.bandwidth, _bandwidth),
        ("bandwidth, measured", gpu.bandwidth_measured, _bandwidth),
        *((f"dense {name}", fact, _flops) for name, fact in gpu.flops.items()),
        (f"link to its peers{f', {gpu.link_name}' if gpu.link_name else ''}", gpu.link, _bandwidth),
        ("GPUs that the link joins", gpu.link_domain, _count),
        ("link by a bridge, sold separately", gpu.bridge, _bandwidth),
        ("link to the host", gpu.pcie, _bandwidth),
    ]
    columns = (
        Column("fact", right=False, shrink=True),
        Column("value"),
        Column("kind", right=False),
        Column("sources", right=False, shrink=True),
    )
    rows = [
        (name, said(fact.value), fact.kind, ", ".join(fact.sources)) for name, fact, said in facts if fact is not None
    ]
    yield Table(columns, tuple(rows))
    slices = ", ".join(name.partition(":")[2] for name in gpu.slices)
    others = (
        ("also called", ", ".join(gpu.aliases)),
        ("MIG slices", slices),
        ("memory type", gpu.memory_type),
        ("slice of", gpu.mig_of),
        ("devices per package", str(gpu.devices_per_package) if gpu.devices_per_package > 1 else None),
    )
    yield Facts(tuple((name, value) for name, value in others if value))
    yield from (Note(text) for text in gpu.notes)


def _bandwidth(value: int) -> str:
    return f"{value / 1e12:.3g} TB/s" if value >= 10**12 else f"{value / 1e9:.3g} GB/s"


def _count(value: int) -> str:
    return f"{value:,}"


def _decimal(value: int) -> str:
    return f"{value / 1e9:.4g} GB"


def _flops(value: int) -> str:
    return f"{value / 1e12:,.0f} TFLOP/s"
