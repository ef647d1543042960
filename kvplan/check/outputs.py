"""The formats of `kvplan check`, and files written all or none."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.check.diff import DRIFT
from kvplan.check.metrics import METRICS, STARTS
from kvplan.errors import BadFile, UnknownName, UsageError
from kvplan.report.schema.check import CheckReport

if TYPE_CHECKING:
    from kvplan.report.canvas import Canvas

FORMATS = ("table", "json", "markdown", "github", "junit", "sarif")
ENDINGS = {".txt": "table", ".json": "json", ".md": "markdown", ".xml": "junit", ".sarif": "sarif"}
ONE_DOCUMENT = frozenset({"json", "junit", "sarif"})
"""Formats that nothing else may stand beside."""

RULES: Mapping[str, str] = {
    STARTS: "The engine starts, with room for one sequence of its context.",
    **{metric.rule: metric.about for metric in METRICS.values()},
    "unanswered": "Every deployment can be planned.",
    DRIFT: "Every deployment is as its lock has it.",
    "gpu-count": "A container has the GPUs that its parallel sizes need.",
    "bad-argument": "vLLM can read every argument.",
    "unknown-flag": "Every flag is one of vLLM's.",
    "unread-arguments": "No argument is hidden in a variable.",
    "not-counted": "Every flag that takes memory is counted in the plan.",
    "not-read": "Every serve command can be read.",
}
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
            raise UsageError(f"-o {text} names no file")
        return Output(name, path)
    ending = ENDINGS.get(Path(text).suffix.lower())
    if ending is None and len(formats) != 1:
        raise UsageError(f"-o {text}: which format?", hint=f"end it in {', '.join(ENDINGS)}, or write FORMAT=FILE")
    return Output(ending or formats[0], text)


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
    if len(screen) > 1 and ONE_DOCUMENT.intersection(screen):
        raise UsageError(
            f"{' and '.join(screen)} can't share standard output", hint=f"send one to a file: -o {screen[-1]}=FILE"
        )
    paths = [os.path.realpath(str(output.path)) for output in outputs]
    if len(set(paths)) < len(paths):
        raise UsageError("two outputs would be written to one file")
    return (*(Output(name) for name in screen), *outputs)


def rendered(report: CheckReport, name: str, canvas: Canvas) -> str:
    """The report in a format, ending with a newline where it isn't empty."""
    from kvplan.report import data, findings, github, junit, markdown, sarif, text
    from kvplan.report.views import check

    match name:
        case "json":
            return data.as_json(report)
        case "markdown":
            return markdown.draw(check.view(report, most=check.MOST_IN_COMMENT))
        case "github":
            return github.commands(findings.findings(report), in_repository)
        case "junit":
            return junit.junit(report, _now(), in_repository)
        case "sarif":
            complete = not report.summary.unanswered
            return sarif.sarif(findings.findings(report), RULES, report.kvplan, in_repository, complete=complete)
    return harmless(text.draw(check.view(report), canvas))


_STEERING = re.compile(
    r"\x1b(?!\[[0-9;]*m)|[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def harmless(page: str) -> str:
    """A page whose quotations from manifests can't steer a terminal; colours stay."""
    return _STEERING.sub("?", page)


def in_repository(file: str) -> str:
    """A file's path from the root of the repository, which is what annotations and code scanning want."""
    from kvplan.report.findings import relative

    return relative(file, str(repository()), str(Path.cwd()))


def repository() -> Path:
    """The folder around the current one that holds .git; the current one where there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def write_all(texts: Mapping[str, str]) -> None:
    """Write every file, or none: all are drafted beside their places before the first takes its place.

    Raises: BadFile.
    """
    drafts: list[tuple[str, str]] = []
    try:
        for path, content in texts.items():
            drafts.append((_draft(path, content), os.path.realpath(path)))
        while drafts:
            draft, target = drafts[0]
            Path(draft).replace(target)
            drafts.pop(0)
    except OSError as error:
        raise BadFile(f"{error.filename2 or error.filename} can't be written", cause=error.strerror) from None
    finally:
        for draft, _ in drafts:
            Path(draft).unlink(missing_ok=True)


def _draft(path: str, content: str) -> str:
    """A finished copy beside the file, with the mode that the file has or would get."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise BadFile(f"{path} can't be written", cause="it is a folder")
    if not target.parent.is_dir():
        raise BadFile(f"{path} can't be written", cause=f"there is no folder {target.parent}")
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
        Path(draft).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
    return draft


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
