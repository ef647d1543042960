"""The pages of `kvplan compare`, `models`, `gpus`, `engines` and `env`."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.report import schema
from kvplan.report.blocks import Block, Column, Facts, Heading, Note, Table
from kvplan.report.views import words
from kvplan.units import format_bytes


def compare(report: schema.CompareReport) -> tuple[Block, ...]:
    """Rows side by side, each against the first."""
    split = words.layout_text(report.parallel)
    columns = [
        Column("model", right=False, shrink=True),
        Column("attention", right=False, shrink=True),
        Column("cache", right=False, shrink=True),
        Column("tokens"),
        Column("per token"),
        Column("fixed"),
        Column("one sequence"),
    ]
    columns += [Column(f"per GPU ({split})")] if split else []
    columns.append(Column("x first"))
    rows = []
    for row in report.rows:
        cells = [row.model, row.attention, words.kv_text(row.kv_dtype), f"{row.tokens:,}"]
        cells += [_per_token(row), format_bytes(row.fixed_bytes_per_sequence) if row.fixed_bytes_per_sequence else "-"]
        cells += [format_bytes(row.bytes)] + ([format_bytes(row.bytes_per_gpu)] if split else [])
        rows.append((*cells, words.times(row.ratio)))
    notes = dict.fromkeys(note for row in report.rows for note in row.notes)
    return (Table(tuple(columns), tuple(rows)), *(Note(text) for text in notes))


def _per_token(row: schema.Compared) -> str:
    first, full = format_bytes(row.bytes_per_token), format_bytes(row.bytes_per_token_full)
    return first if first == full else f"{first}, then {full}"


def models(report: schema.ModelsReport) -> tuple[Block, ...]:
    """One row a model."""
    columns = (
        Column("model", right=False),
        Column("parameters"),
        Column("context"),
        Column("attention", right=False, shrink=True),
        Column("per token"),
        Column("fixed"),
    )
    rows = tuple(
        (
            model.id,
            "unknown" if model.parameters.total is None else words.parameter_text(model.parameters.total),
            "unknown" if model.max_context is None else f"{model.max_context:,}",
            model.attention,
            format_bytes(model.bytes_per_token),
            format_bytes(model.fixed_bytes_per_sequence) if model.fixed_bytes_per_sequence else "-",
        )
        for model in report.models
    )
    return (Table(columns, rows), Note("Also: a Hub id, a config.json, a folder, a kvplan YAML, or - for stdin."))


def gpus(report: schema.GpusReport) -> tuple[Block, ...]:
    """One row a GPU; everything about it when there is one."""
    if len(report.gpus) == 1:
        return tuple(_one_gpu(report.gpus[0]))
    columns = (
        Column("gpu", right=False),
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
        ("memory a process sees", gpu.memory, format_bytes),
        ("memory as sold", gpu.memory_marketed, _decimal),
        ("bandwidth, datasheet", gpu.bandwidth, _bandwidth),
        ("bandwidth, measured", gpu.bandwidth_measured, _bandwidth),
        *((f"dense {name}", fact, _flops) for name, fact in gpu.flops.items()),
        ("link to its peers", gpu.link, _bandwidth),
    ]
    columns = (
        Column("fact", right=False),
        Column("value"),
        Column("kind", right=False),
        Column("sources", right=False, shrink=True),
    )
    rows = [
        (name, said(fact.value), fact.kind, ", ".join(fact.sources)) for name, fact, said in facts if fact is not None
    ]
    yield Table(columns, tuple(rows))
    others = (("also called", ", ".join(gpu.aliases)), ("memory type", gpu.memory_type), ("slice of", gpu.mig_of))
    yield Facts(tuple((name, value) for name, value in others if value))
    yield from (Note(text) for text in gpu.notes)


def engines(report: schema.EnginesReport) -> tuple[Block, ...]:
    """Each engine and its rules."""
    columns = (
        Column("since", right=False),
        Column("rule", right=False, shrink=True),
        Column("source", right=False, shrink=True),
    )
    blocks: list[Block] = []
    for engine in report.engines:
        versions = f" {engine.oldest} to {engine.newest}" if engine.newest else ""
        blocks.append(Heading(f"{engine.name}{versions}"))
        rows = tuple((rule.since + ("" if rule.certain else "?"), rule.says, rule.source) for rule in engine.rules)
        blocks.append(Table(columns, rows))
    return (*blocks, Note("A version with ? is the first in which the rule was seen; it may be older."))


def env(report: schema.EnvReport) -> tuple[Block, ...]:
    """What a bug report needs."""
    facts = [("kvplan", report.kvplan), ("python", report.python), ("platform", report.platform)]
    facts += [(name, version or "not installed") for name, version in report.packages.items()]
    facts.append(("bundled models", _count(report.bundled_models)))
    facts.append(("bundled GPUs", _count(report.bundled_gpus)))
    facts.append(("NVIDIA driver", report.driver))
    facts.append(("GPUs here", ", ".join(report.gpus_here) or "none found"))
    settings = tuple((setting.name, setting.value, setting.source) for setting in report.settings)
    if not settings:
        return (Facts(tuple(facts)),)
    columns = (
        Column("setting", right=False),
        Column("value", right=False, shrink=True),
        Column("from", right=False, shrink=True),
    )
    return (Facts(tuple(facts)), Table(columns, settings))


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number}"


def _bandwidth(value: int) -> str:
    return f"{value / 1e12:.3g} TB/s" if value >= 10**12 else f"{value / 1e9:.3g} GB/s"


def _decimal(value: int) -> str:
    return f"{value / 1e9:.4g} GB"


def _flops(value: int) -> str:
    return f"{value / 1e12:,.0f} TFLOP/s"
