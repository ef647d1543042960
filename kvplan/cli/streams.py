"""Output: only answers on stdout, everything else on stderr, and files written whole or not at all."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from kvplan.cli import options
from kvplan.cli.command import Answer
from kvplan.cli.option import Values
from kvplan.errors import CannotWrite, KvplanError, UnknownName, UsageError
from kvplan.report.canvas import Canvas

WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of a stream that can't be written to. None of them is a fault of the program."""


def deliver(answer: Answer, values: Values) -> None:
    """Write the files, then stdout. Everything is rendered before anything is written.

    Raises: UsageError, UnknownName, BadFile; then nothing was printed.
    """
    if answer.document is None:
        say(answer.text)
        return
    from kvplan.cli.files import write_all
    from kvplan.report.render import render

    colour = colours(values)
    on_screen, files = destinations(values)
    explain = values.on(options.EXPLAIN)
    page = Canvas(sys.stdout, colour)
    pages = [render(answer.document, name, page, explain=explain) for name in on_screen]
    write_all({path: render(answer.document, name, Canvas(), explain=explain) for path, name in files})
    say("\n".join(pages))


def colours(values: Values) -> str:
    """When to use colours: auto, always or never.

    Raises: UnknownName.
    """
    colour = values.get(options.COLOUR) or "auto"
    if colour not in options.COLOUR.choices:
        raise UnknownName(
            f"{options.COLOUR.flag} {colour} isn't a choice",
            hint="known: " + ", ".join(options.COLOUR.choices),
        )
    return colour


def destinations(values: Values) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Formats for stdout, and files with their formats.

    The ending of a file decides its format. Formats that --format names and no file takes go to stdout, as --json does.

    Raises: UsageError, UnknownName.
    """
    from kvplan.report.render import ENDINGS, FORMATS

    as_json = values.on(options.JSON) and not values.beaten(options.JSON, options.FORMAT)
    named = () if values.beaten(options.FORMAT, options.JSON) else values.get(options.FORMAT) or ()
    for name in named:
        if name not in FORMATS:
            raise UnknownName(f"--format: there is no format {name!r}", hint="known: " + ", ".join(FORMATS))
    files = []
    for text in values.all(options.OUTPUT):
        ending = ENDINGS.get(Path(text).suffix.lower())
        if ending is None and len(named) != 1:
            raise UsageError(
                f"-o {text}: which format?", hint=f"end the name in {', '.join(ENDINGS)}, or give one --format"
            )
        if text != "-":  # `-` is stdout, where the format goes anyway
            files.append((text, ending or named[0]))
    if as_json:
        if named and named != ("json",):
            raise UsageError("--json and --format can't be combined", hint="leave one of them out")
        return ("json",), tuple(files)
    taken = {name for _, name in files}
    if not named and not files:
        return ("table",), ()
    return tuple(name for name in named if name not in taken), tuple(files)


def say(text: str) -> None:
    """Print on stdout. A reader that has gone away is no error.

    Raises: CannotWrite.
    """
    if sys.stdout is None:
        raise unwritable("it is closed")
    try:
        _put(sys.stdout, text)
    except BrokenPipeError:
        nobody_reads()
    except OSError as error:
        raise unwritable(error.strerror) from None


def unwritable(cause: str | None) -> CannotWrite:
    """The error for a stdout that can't be written to. It also silences Python's last flush."""
    if sys.stdout is not None:
        nobody_reads()
    return CannotWrite("standard output can't be written", cause=cause, hint="write to a file instead: -o plan.json")


def complain(error: KvplanError) -> None:
    """Print an error on stderr: error, cause and hint."""
    from rich.text import Text

    if sys.stderr is None:
        return
    console, problem = Canvas(sys.stderr).console(), error.problem
    said = (
        ("error", problem.what, "bold red"),
        ("cause", problem.cause, "bold yellow"),
        ("hint", problem.hint, "bold cyan"),
    )
    try:
        with console.capture() as page:
            for name, text, style in said:
                if text:
                    console.print(Text.assemble((f"{name}:", style), " ", printable(text)), soft_wrap=True)
        _put(sys.stderr, page.get())
    except OSError:  # the exit code still says it
        nobody_reads(sys.stderr)


def note(text: str) -> None:
    """Print a remark on stderr, if it can be written to."""
    if sys.stderr is not None:
        with suppress(OSError):
            _put(sys.stderr, f"note: {printable(text)}\n")


def printable(text: str) -> str:
    """The text without characters that could control a terminal."""
    return "".join(sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text)


def _put(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def nobody_reads(stream: TextIO | None = None) -> None:
    """Prevent Python's last flush from complaining about a closed stream (default: stdout)."""
    with suppress(OSError, ValueError):
        left = (stream or sys.stdout).fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, left)
        os.close(nowhere)
