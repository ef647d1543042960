"""Names of the formats of `kvplan check`, and where each of them goes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kvplan.errors import UnknownName, UsageError
from kvplan.text import all_of

FORMATS = ("table", "json", "markdown", "github", "junit", "sarif")
ENDINGS = {".txt": "table", ".json": "json", ".md": "markdown", ".xml": "junit", ".sarif": "sarif"}
ONE_DOCUMENT = frozenset({"json", "junit", "sarif"})
"""Formats that nothing else may stand beside."""


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
