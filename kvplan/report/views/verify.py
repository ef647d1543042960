"""The page of `kvplan verify`: what ran, every check with its prediction, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvplan.report.blocks import Block, Column, Facts, Heading, Note, Table, Verdict
from kvplan.report.schema import verify as schema
from kvplan.report.views import words
from kvplan.units import format_bytes, format_seconds

CHECKS = {
    "recompute": "Cached decode against full recomputation",
    "bytes": "Bytes",
    "capacity": "The largest batch",
    "time": "Time",
    "meta": "Against transformers on the meta device",
}
"""Headings of the checks, in the order in which they run."""


def view(report: schema.VerifyReport) -> tuple[Block, ...]:
    """What was built and where, a table for each check, and the verdict."""
    return tuple(_blocks(report))


def _blocks(report: schema.VerifyReport) -> Iterator[Block]:
    yield Verdict(_verdict(report), good=report.verdict == "confirmed")
    yield Facts(tuple(_facts(report)))
    for check, heading in CHECKS.items():
        rows = tuple(row for row in report.rows if row.check == check)
        if rows:
            yield Heading(heading)
            yield Table(_COLUMNS, tuple(_row(row) for row in rows))
    yield from (Note(text) for text in _notes(report))


_COLUMNS = (
    Column("what", right=False, shrink=True),
    Column("predicted"),
    Column("measured"),
    Column("error"),
    Column("verdict", right=False, stays=True),
    Column("rule", right=False, shrink=True),
)


def _verdict(report: schema.VerifyReport) -> str:
    verdicts = ("confirmed", "refuted", "reported", "not run")
    counts = {name: sum(row.verdict == name for row in report.rows) for name in verdicts}
    others = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{words.model_line(report.model)}: {report.verdict} ({others})"


def _facts(report: schema.VerifyReport) -> Iterator[tuple[str, str]]:
    built, machine = report.built, report.machine
    if machine is not None:
        yield "on", f"{machine.name}, {format_bytes(machine.free_bytes)} of {format_bytes(machine.memory_bytes)} free"
    versions = ", ".join(
        f"{name} {version}" for name, version in report.versions.items() if version and name != "system"
    )
    yield "with", versions
    split = words.layout_text(report.parallel)
    if split:
        yield "share", f"{split}, {'all ranks' if report.rank is None else f'rank {report.rank} alone'}"
    if built is not None:
        yield (
            "built",
            (
                f"{built.layers} of {built.of_layers} layers, {format_bytes(built.weights_bytes)} of random weights in {built.dtype}, "
                f"at most {format_bytes(built.memory_limit_bytes)} in all"
            ),
        )
        if built.left_out:
            yield "not built", "; ".join(built.left_out)
    layout = "" if built is None else ", contiguous" if built.page is None else f", in pages of {built.page} tokens"
    yield "cache", words.kv_text(report.kv_dtype) + layout
    yield "took", f"{report.seconds:.0f} s"


def _row(row: schema.Checked) -> tuple[str, ...]:
    return (
        row.what,
        _amount(row.predicted, row.unit),
        _amount(row.measured, row.unit),
        _error(row),
        row.verdict,
        row.rule,
    )


def _error(row: schema.Checked) -> str:
    if row.error is None:
        return "-"
    if row.unit == "difference":
        return f"{row.error:.1e}"
    return "0" if row.error == 0 else f"{row.error:+.2%}"


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return _SAID.get(unit, _whole)(value)


def _whole(value: float) -> str:
    return f"{int(value):,}"


_SAID: dict[str, Callable[[float], str]] = {
    "B": lambda value: f"{int(value):,} B",
    "B/s": lambda value: f"{value / 1e9:,.0f} GB/s",
    "s": format_seconds,
    "share": lambda value: f"{value:.0%}",
    "difference": lambda value: f"{value:.1e}",
}
"""How numbers are printed, by unit. Other units are counts, printed as whole numbers."""


def _notes(report: schema.VerifyReport) -> Iterator[str]:
    yield from report.notes
    if report.built is not None and report.built.held:
        yield "Held in memory, read by no module here: " + ", ".join(report.built.held)
