"""The page of `kvplan models`."""

from __future__ import annotations

from kvplan.report.blocks import Block, Column, Note, Table
from kvplan.report.schema import lists as schema
from kvplan.report.views import words
from kvplan.units import format_bytes


def view(report: schema.ModelsReport) -> tuple[Block, ...]:
    """One row a model."""
    columns = (
        Column("model", right=False, shrink=True),
        Column("parameters"),
        Column("context"),
        Column("attention", right=False, shrink=True),
        Column("per token", stays=True),
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
