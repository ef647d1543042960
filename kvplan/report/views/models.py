"""The page of `kvplan models`."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.report.blocks import Block, Code, Column, Facts, Heading, Note, Table
from kvplan.report.schema import lists as schema
from kvplan.report.views import words
from kvplan.units import format_bytes


def view(report: schema.ModelsReport) -> tuple[Block, ...]:
    """One row per model, or named models with their descriptions."""
    if any(model.description for model in report.models):
        return tuple(block for model in report.models for block in _one_model(model))
    columns = (
        Column("model", right=False, shrink=True),
        Column("parameters"),
        Column("context"),
        Column("attention", right=False, shrink=True),
        Column("per token", stays=True),
        Column("fixed"),
    )
    rows = tuple((model.id, *_figures(model)) for model in report.models)
    return (
        Table(columns, rows),
        Note("Also: a Hub id, a config.json, a folder, a kvplan YAML, or - for stdin."),
        Note("kvplan models MODEL shows how kvplan understands one, as a YAML from which to describe a similar model."),
    )


def _one_model(model: schema.ListedModel) -> Iterator[Block]:
    parameters, context, attention, per_token, fixed = _figures(model)
    yield Heading(f"{model.id}: {attention}")
    others = (
        ("parameters", parameters),
        ("context", context),
        ("per token", per_token),
        ("fixed", fixed),
        ("source", model.source),
        ("also called", ", ".join(model.aliases)),
    )
    yield Facts(tuple((name, value) for name, value in others if value not in ("", "-")))
    yield Code(model.description or "", "yaml")


def _figures(model: schema.ListedModel) -> tuple[str, str, str, str, str]:
    """Parameters, context, attention, bytes per token, fixed bytes."""
    return (
        "unknown" if model.parameters.total is None else words.parameter_text(model.parameters.total),
        "unknown" if model.max_context is None else f"{model.max_context:,}",
        model.attention,
        format_bytes(model.bytes_per_token),
        format_bytes(model.fixed_bytes_per_sequence) if model.fixed_bytes_per_sequence else "-",
    )
