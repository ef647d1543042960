"""The page of `kvplan engines`."""

from __future__ import annotations

from kvplan.report.blocks import Block, Column, Heading, Note, Table
from kvplan.report.schema import lists as schema


def view(report: schema.EnginesReport) -> tuple[Block, ...]:
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
