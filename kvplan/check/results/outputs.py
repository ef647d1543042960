"""A check written in each of its formats, and which files may be overwritten."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.check.results.metrics import METRICS, STARTS
from kvplan.errors import UsageError
from kvplan.manifests import places
from kvplan.manifests.tree import WorkingTree
from kvplan.report import findings
from kvplan.report.blocks import Block, Facts, Heading, Note, Table
from kvplan.report.schema.check import CheckReport
from kvplan.sources.files import CONFIG_NAMES

if TYPE_CHECKING:
    from kvplan.report.canvas import Canvas

RULES: Mapping[str, str] = dict((
    (STARTS, "The engine starts, with room for one sequence of its context."),
    *((metric.rule, metric.about) for metric in METRICS.values()),
    *findings.RULES.items(),
    *places.RULES.items(),
))  # fmt: skip
"""Every rule, with a sentence for it."""


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
