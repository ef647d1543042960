"""The page of `kvplan size`."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.report.blocks import Block, Column, Facts, Heading, Note, Table
from kvplan.report.schema import size as schema
from kvplan.report.schema.common import ModelInfo
from kvplan.report.views import words
from kvplan.text import plural
from kvplan.units import format_bytes

SHOWN_DEFAULTS = 6


def view(report: schema.SizeReport) -> tuple[Block, ...]:
    """Facts, lengths, groups of layers, a ladder of lengths, and the same shape under other kinds of attention."""
    return tuple(_blocks(report))


def _blocks(report: schema.SizeReport) -> Iterator[Block]:
    yield Heading(words.model_line(report.model))
    yield Facts(tuple(_facts(report)))
    yield _lengths(report)
    yield _groups(report.cache)
    yield Heading("One sequence, whole model, at other lengths")
    yield Table(
        (Column("tokens"), Column("cache")), tuple((f"{r.tokens:,}", format_bytes(r.bytes)) for r in report.ladder)
    )
    if report.same_shape:
        longest = max(each.tokens for each in report.sequences)
        yield Heading(f"The same shape under another attention, at {plural(longest, 'token')}")
        yield _same_shape(report)
    yield from (Note(text) for text in report.warnings)
    yield from (Note(text) for text in notes(report.model))
    yield from (Note(f"Assumed: {name} {value}.") for name, value in report.assumed.items())
    yield from words.set_elsewhere(report.settings)
    if report.rule_of_thumb is not None:
        yield Note(f"Rule of thumb: {report.rule_of_thumb}.")


def notes(model: ModelInfo) -> Iterator[str]:
    """Notes on the model, with the defaults that were used."""
    if model.defaulted:
        shown = ", ".join(f"{field.field} = {field.value}" for field in model.defaulted[:SHOWN_DEFAULTS])
        more = len(model.defaulted) - SHOWN_DEFAULTS
        yield f"Not in the config, so its class's defaults: {shown}{f' and {more} more (--json)' if more > 0 else ''}."
    yield from model.notes


def _facts(report: schema.SizeReport) -> Iterator[tuple[str, str]]:
    model, cache = report.model, report.cache
    yield "source", model.source + (f" @ {model.revision}" if model.revision else "")
    yield "attention", f"{cache.attention}, {plural(cache.caching_layers, 'caching layer')}"
    if model.weights is not None:
        yield "weights", words.weights_text(model.weights)
    if report.weight_reads is not None:
        yield (
            f"read at batch {report.weight_reads.batch:,}",
            f"{words.reads_text(report.weight_reads)} of them in a step",
        )
    yield "cache format", words.kv_text(report.kv_dtype)
    yield "per token", words.exact(cache.bytes_per_token)
    if cache.bytes_per_token_full != cache.bytes_per_token:
        yield f"after {cache.full_after:,} tokens", f"{words.exact(cache.bytes_per_token_full)} per token"
    if cache.fixed_bytes_per_sequence:
        yield "per sequence", f"{words.exact(cache.fixed_bytes_per_sequence)} whatever its length"
    if model.max_context is None:
        yield "longest context", f"not stated: {model.max_context_reason}"
    else:
        yield "longest context", f"{model.max_context:,} tokens"


def _lengths(report: schema.SizeReport) -> Table:
    layout = words.layout_text(report.parallel)
    columns = [Column("tokens"), Column("one sequence"), Column("bytes"), Column("next token adds")]
    split, engine = bool(layout), report.engine.version is not None
    columns += [Column(f"per GPU ({layout})")] if split else []
    doubt = "" if report.verified else " (unverified)"
    columns += [Column(f"{words.engine_text(report.engine)}{doubt} takes per GPU")] if engine else []
    rows = []
    for row in report.sequences:
        cells = [f"{row.tokens:,}", format_bytes(row.bytes), f"{row.bytes:,}", format_bytes(row.slope_bytes)]
        cells += [format_bytes(row.bytes_per_gpu)] if split else []
        cells += [format_bytes(row.engine_bytes_per_gpu)] if engine else []
        rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows))


def _groups(cache: schema.CacheInfo) -> Table:
    columns = (
        Column("layers"),
        Column("kind", right=False),
        Column("tokens kept"),
        Column("cache per layer", right=False, shrink=True),
    )
    return Table(columns, tuple((f"{group.layers:,}", group.kind, _stop(group), _law(group)) for group in cache.groups))


def _stop(group: schema.Group) -> str:
    if not group.bytes_per_entry:
        return "a state"
    return "all" if group.cap_tokens is None else f"{group.cap_tokens:,}"


def _law(group: schema.Group) -> str:
    every = f" every {group.stride} tokens" if group.stride > 1 else " a token" if group.bytes_per_entry else ""
    return group.formula + every


def _same_shape(report: schema.SizeReport) -> Table:
    columns = (Column("attention", right=False), Column("per token"), Column("one sequence"), Column("vs its own"))
    rows = tuple(
        (other.attention, format_bytes(other.bytes_per_token), format_bytes(other.bytes), words.times(other.ratio))
        for other in report.same_shape
    )
    return Table(columns, rows)
