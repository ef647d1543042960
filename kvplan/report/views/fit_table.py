"""The page of `kvplan fit` without a model."""

from __future__ import annotations

from kvplan.engines.base import Binding
from kvplan.report.blocks import Block, Column, Heading, Note, Table
from kvplan.report.schema import fit as schema
from kvplan.report.schema.common import EngineInfo
from kvplan.report.views import words
from kvplan.units import format_bytes

REASONS: dict[Binding, str] = {
    "weights": "weights",
    "longest_request": "one request",
    "concurrency": "sequences",
    "max_num_seqs": "limit",
}


MARK = "*"
"""Marks a length that the model's own config doesn't justify."""


def view(report: schema.FitTable) -> tuple[Block, ...]:
    """One row per model."""
    columns = (
        Column("model", right=False, shrink=True),
        Column("context"),
        Column("weights/GPU"),
        Column("KV/GPU"),
        Column("at once", shrink=True, stays=True),
        Column("longest"),
        Column("step, likely"),
    )
    blocks: list[Block] = []
    if report.rows:
        first = report.rows[0]
        blocks.append(
            Heading(
                f"Every bundled model on {first.gpu.count} x {first.gpu.id}, by {words.engine_text(_usual(report))}"
            )
        )
    blocks.append(Table(columns, tuple(_row(row) for row in report.rows)))
    simple = [row.model.id for row in report.rows if row.engine != _usual(report)]
    if simple:
        blocks.append(Note(f"By the formula, because the engine doesn't serve them: {', '.join(simple)}."))
    if any(row.exceeded is not None for row in report.rows):
        blocks.append(Note(f"{MARK} more than the model's own maximum"))
    blocks += [Note(text) for text in _shared(report)]
    blocks += [Note(f"{skipped.id}: {skipped.error}") for skipped in report.skipped]
    blocks += words.set_elsewhere(report.settings)
    return tuple(blocks)


def _shared(report: schema.FitTable) -> tuple[str, ...]:
    """Remarks that every row has."""
    first, *rest = (row.warnings for row in report.rows) if report.rows else ((),)
    return tuple(text for text in first if all(text in other for other in rest))


def _usual(report: schema.FitTable) -> EngineInfo:
    """The engine of most rows."""
    names = [(row.engine.name, row.engine.version) for row in report.rows]
    return EngineInfo(*max(set(names), key=names.count))


def _row(row: schema.FitReport) -> tuple[str, ...]:
    memory = row.per_gpu
    kept = (memory.low if memory.decides == "low" else memory).kv_bytes
    return (
        row.model.id,
        f"{row.context:,}{MARK if row.exceeded is not None else ''}",
        words.size(memory.weights_bytes),
        format_bytes(max(kept, 0)),
        f"{row.max_sequences:,}" if row.verdict == "fits" else f"no: {REASONS.get(row.binding, row.binding)}",
        "no limit" if row.max_context is None else f"{row.max_context:,}",
        "-" if row.decode is None else words.seconds(row.decode.step_s_likely),
    )
