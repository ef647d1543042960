"""The formats of `kvplan check`, and where each of them goes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.check.metrics import METRICS, STARTS
from kvplan.errors import UnknownName, UsageError
from kvplan.manifests import said
from kvplan.manifests.tree import WorkingTree
from kvplan.report import findings
from kvplan.report.blocks import Block, Facts, Heading, Note, Table
from kvplan.report.schema.check import CheckReport
from kvplan.sources.files import CONFIG_NAMES
from kvplan.text import all_of

if TYPE_CHECKING:
    from kvplan.report.canvas import Canvas

FORMATS = ("table", "json", "markdown", "github", "junit", "sarif")
ENDINGS = {".txt": "table", ".json": "json", ".md": "markdown", ".xml": "junit", ".sarif": "sarif"}
ONE_DOCUMENT = frozenset({"json", "junit", "sarif"})
"""Formats that nothing else may stand beside."""

RULES: Mapping[str, str] = dict((
    (STARTS, "The engine starts, with room for one sequence of its context."),
    *((metric.rule, metric.about) for metric in METRICS.values()),
    *findings.RULES.items(),
    *said.RULES.items(),
))  # fmt: skip
"""Every rule, with a sentence for it."""


@dataclass(frozen=True, slots=True)
class Output:
    """A format, and the file it goes to; None for standard output."""

    format: str
    path: str | None = None


def parse_output(text: str, formats: tuple[str, ...]) -> Output:
    """`report.sarif` by its ending, or `sarif=FILE`; `formats` are those of --format, for an ending that says nothing.

    Raises: UsageError, UnknownName.
    """
    name, equals, path = text.partition("=")
    if equals and name in FORMATS:
        if not path:
            raise UsageError(f"-o {text} names no file", hint=f"-o {name}=FILE, or -o {name}=- for standard output")
        return Output(name, None if path == "-" else path)
    ending = ENDINGS.get(Path(text).suffix.lower())
    if ending is None and len(formats) != 1:
        raise UsageError(f"-o {text}: which format?", hint=f"end it in {', '.join(ENDINGS)}, or write FORMAT=FILE")
    return Output(ending or formats[0], None if text == "-" else text)


def destinations(formats: tuple[str, ...], files: tuple[str, ...]) -> tuple[Output, ...]:
    """Where everything goes: files by -o; what --format names and no file took goes to standard output.

    Raises: UsageError where two documents would share standard output, or two outputs a file; UnknownName.
    """
    for name in formats:
        if name not in FORMATS:
            raise UnknownName(f"--format: there is no format {name!r}", hint="known: " + ", ".join(FORMATS))
    outputs = [parse_output(text, formats) for text in files]
    taken = {output.format for output in outputs}
    screen = [name for name in formats if name not in taken] if formats or files else ["table"]
    screen += [output.format for output in outputs if output.path is None]
    outputs = [output for output in outputs if output.path is not None]
    if len(screen) > 1 and ONE_DOCUMENT.intersection(screen):
        raise UsageError(
            f"{all_of(screen)} can't share standard output", hint=f"send one to a file: -o {screen[-1]}=FILE"
        )
    paths = [os.path.realpath(str(output.path)) for output in outputs]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError("two outputs would be written to one file", cause=twice, hint="give each a file of its own")
    return (*(Output(name) for name in screen), *outputs)


def rendered(report: CheckReport, name: str, canvas: Canvas) -> str:
    """The report in a format, ending with a newline where it isn't empty."""
    from kvplan.report import data, github, junit, markdown, sarif, text
    from kvplan.report.views import check

    match name:
        case "json":
            return data.as_json(report)
        case "markdown":
            return harmless(markdown.draw(_on_lines(check.view(report, most=check.MOST_IN_COMMENT))))
        case "github":
            return github.commands(findings.findings(report), in_repository)
        case "junit":
            return junit.junit(report, _now(), in_repository)
        case "sarif":
            complete = not report.summary.unanswered
            return sarif.sarif(findings.findings(report), RULES, report.kvplan, in_repository, complete=complete)
    return harmless(text.draw(_on_lines(check.view(report)), canvas))


_STEERING = re.compile(
    r"\x1b(?!\[[0-9;]*m)|[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def harmless(page: str) -> str:
    """A page whose quotations from manifests can't steer a terminal; colours stay."""
    return _STEERING.sub("?", page)


def _on_lines(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks whose texts keep to their line and mean nothing to a terminal, whatever manifests call things."""
    found: list[Block] = []
    for block in blocks:
        match block:
            case Facts(pairs):
                found.append(Facts(tuple((_line(name), _line(value)) for name, value in pairs)))
            case Table():
                found.append(block._replace(rows=tuple(tuple(map(_line, row)) for row in block.rows)))
            case Heading(text):
                found.append(Heading(_line(text)))
            case Note(text):
                found.append(Note(_line(text)))
            case _:
                found.append(block)
    return tuple(found)


def _line(text: str) -> str:
    return _CONTROL.sub("?", " ".join(text.split()))


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def in_repository(file: str) -> str:
    """A file's path from the root of the repository, which is what annotations and code scanning want."""
    return findings.relative(file, str(repository()), str(Path.cwd()))


def repository() -> Path:
    """The folder around the current one that holds .git; the current one where there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def check_targets(paths: Iterable[str], tree: WorkingTree) -> None:
    """Refuse to write a report over anything that this run reads, locks included.

    Raises: UsageError.
    """
    read = {os.path.realpath(name) for name in tree.seen}
    for path in paths:
        target = os.path.realpath(path)
        model = os.path.dirname(target) in read and os.path.basename(target) in CONFIG_NAMES  # noqa: PTH119, PTH120
        if (target in read or model) and Path(target).is_file():
            raise UsageError(f"-o {path} would overwrite what this check reads", hint="name another file")
