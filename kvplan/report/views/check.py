"""The page of `kvplan check`: the answer, a row per deployment, what is broken and where, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.report.blocks import Block, Column, Facts, Heading, Note, Table, Verdict
from kvplan.report.schema.check import RANKS, At, CheckReport, Moved, Result, Subject
from kvplan.text import plural
from kvplan.units import format_bytes

MOST_IN_COMMENT = 100
"""Rows of each table in a comment, because a pull request's may have 65,536 characters."""

_WORDS = {"pass": "ok", "warn": "warning", "fail": "over budget", "error": "no answer"}


def view(report: CheckReport, *, most: int | None = None) -> tuple[Block, ...]:
    """The page. most: rows of each table, the most severe first; None for all in their own order."""
    blocks: list[Block] = [_verdict(report)]
    if report.results:
        blocks += _cut(_deployments(_ordered(report.results, most), most), report.summary.deployments, most)
    blocks += _broken(report, most)
    blocks += _changes(report, most)
    if report.unread:
        facts = Facts(tuple((_at(entry.at), f"{entry.what}: {entry.why}") for entry in report.unread[:most]))
        blocks += [Heading("Not read"), facts]
    blocks += [Note(note) for note in list(_notes(report))[:most]]
    blocks += [Note(f"Wrote {path}.") for path in report.locks]
    return tuple(blocks)


def _verdict(report: CheckReport) -> Verdict:
    summary = report.summary
    if not summary.deployments:
        return Verdict("Nothing was checked.", good=False)
    counted = plural(summary.deployments, "deployment")
    parts = (
        (summary.passed, "within budget"), (summary.warned, "with warnings"), (summary.failed, "over budget"),
        (summary.unanswered, "without an answer"), (summary.unread, "not read"),
    )  # fmt: skip
    return Verdict(
        f"{counted}: " + ", ".join(f"{count:,} {words}" for count, words in parts if count), good=report.passed
    )


def _ordered(results: Sequence[Result], most: int | None) -> Sequence[Result]:
    return results if most is None else sorted(results, key=lambda result: RANKS[result.status])


def _cut(table: Table, whole: int, most: int | None) -> Iterator[Block]:
    yield table
    if most is not None and whole > most:
        yield Note(f"... and {whole - most:,} more.")


def _deployments(results: Sequence[Result], most: int | None) -> Table:
    columns = (
        Column("deployment", right=False, shrink=True),
        Column("on", right=False, shrink=True),
        Column("engine", right=False),
        Column("context"),
        Column("sequences"),
        Column("headroom"),
        Column("answer", right=False, stays=True),
    )
    # A deployment with several faults has a result for each.
    rows = dict.fromkeys(_deployment(result) for result in results)
    return Table(columns, tuple(rows)[:most])


def _deployment(result: Result) -> tuple[str, ...]:
    subject, numbers = result.subject, result.numbers
    if subject is None or numbers is None:
        return (result.name, "", "", "", "", "", _WORDS[result.status])
    room, sequences = numbers["headroom"].safe, numbers["max_sequences"].safe
    return (
        result.name,
        _hardware(subject),
        subject.engine if subject.version is None else f"{subject.engine} {subject.version}",
        f"{subject.context:,}",
        "unknown" if sequences is None else f"{sequences:,.0f}",
        "unknown" if room is None else format_bytes(int(room)),
        _WORDS[result.status],
    )


def _hardware(subject: Subject) -> str:
    split = " ".join(f"{name.upper()}{size}" for name, size in subject.parallel.items() if size > 1)
    return f"{subject.gpus} x {subject.gpu}" + (f", {split}" if split else "")


def _broken(report: CheckReport, most: int | None) -> Iterator[Block]:
    from kvplan.report.findings import findings

    found = [finding for finding in findings(report) if finding.severity != "note"]
    for severity, heading in (("error", "Errors"), ("warning", "Warnings")):
        facts = tuple((_at(one.at), one.message) for one in found if one.severity == severity)
        if facts:
            yield Heading(heading)
            yield Facts(facts[:most])
            if most is not None and len(facts) > most:
                yield Note(f"... and {len(facts) - most:,} more.")


def _notes(report: CheckReport) -> Iterator[str]:
    """Remarks of the plans, each once, with the deployments that it is about."""
    about: dict[str, list[str]] = {}
    for result in report.results:
        for note in result.warnings:
            about.setdefault(note, []).append(result.name)
    for note, names in about.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"{', '.join(names[:3])}{more}: {note}"


def _changes(report: CheckReport, most: int | None) -> Iterator[Block]:
    from kvplan.report.views.check_words import change

    for compared in report.compared:
        since = f"{compared.name} ({compared.revision[:12]})" if compared.revision else compared.name
        moved = [(result.name, entry) for result in report.results for entry in result.moved]
        added = [result.name for result in report.results if result.change == "added"]
        if moved:
            yield Heading(f"Since {since}")
            columns = (Column("deployment", right=False, shrink=True), Column("what", right=False, shrink=True),
                       Column("change", right=False, shrink=True))  # fmt: skip
            rows = tuple((name, _called(entry), change(entry)) for name, entry in moved)
            yield from _cut(Table(columns, rows[:most]), len(rows), most)
        for words, names in (("added", added), ("removed", compared.removed)):
            if names:
                yield Note(f"{words.capitalize()} since {since}: {', '.join(list(names)[:most])}.")
        if compared.note:
            yield Note(f"Compared with {since}: {compared.note}.")


def _called(entry: Moved) -> str:
    from kvplan.report.views.check_words import name

    return name(entry.name) if entry.kind == "number" else entry.name


def _at(place: At) -> str:
    return f"{place.file}:{place.line}"
