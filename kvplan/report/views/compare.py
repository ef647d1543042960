"""The page of `kvplan compare`."""

from __future__ import annotations

from kvplan.report.blocks import Block, Column, Note, Table
from kvplan.report.schema import compare as schema
from kvplan.report.views import words
from kvplan.units import format_bytes


def view(report: schema.CompareReport) -> tuple[Block, ...]:
    """The rows side by side, each compared with the first."""
    split = words.layout_text(report.parallel)
    columns = [
        Column("model", right=False, shrink=True),
        Column("attention", right=False, shrink=True),
        Column("cache", right=False, shrink=True),
        Column("tokens"),
        Column("per token", shrink=True),
        Column("fixed"),
        Column("one sequence", stays=True),
    ]
    columns += [Column(f"per GPU ({split})")] if split else []
    columns.append(Column("vs first"))
    rows = []
    for row in report.rows:
        cells = [row.model, row.attention, words.kv_text(row.kv_dtype), f"{row.tokens:,}"]
        cells += [_per_token(row), format_bytes(row.fixed_bytes_per_sequence) if row.fixed_bytes_per_sequence else "-"]
        cells += [format_bytes(row.bytes)] + ([format_bytes(row.bytes_per_gpu)] if split else [])
        rows.append((*cells, words.times(row.ratio)))
    notes = dict.fromkeys(note for row in report.rows for note in row.notes)
    return (Table(tuple(columns), tuple(rows)), *(Note(text) for text in notes), *words.set_elsewhere(report.settings))


def _per_token(row: schema.Compared) -> str:
    first, full = format_bytes(row.bytes_per_token), format_bytes(row.bytes_per_token_full)
    return first if first == full else f"{first}, then {full}"
