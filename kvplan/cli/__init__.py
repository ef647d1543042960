"""The command line: parse, call the API, print. `main` is the console script."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kvplan.errors import BadFile, KvplanError, UsageError

if TYPE_CHECKING:
    import click

INTERRUPTED = 130

FEW_COLLECTIONS = 50_000
"""New objects between two garbage collections. A command makes thousands that live until it ends."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line and return the process's exit code: 0 yes, 1 no, 2 can't answer, 3 network, 130 Ctrl-C."""
    if words is not None:
        return _answered(list(words))
    gc.set_threshold(FEW_COLLECTIONS)
    try:
        return _answered(sys.argv[1:])
    finally:
        if "torch" not in sys.modules:  # torch's libraries would print what they take for leaks
            gc.freeze()  # the process ends here: a last collection would take a tenth of its time


def _answered(given: list[str]) -> int:
    """The exit code. Without memory to explain an error, it prints a constant."""
    try:
        return _said(given)
    except MemoryError:
        with suppress(OSError):
            os.write(2, _NO_MEMORY)
        return UsageError.exit_code


_NO_MEMORY = (
    b"error: there is no memory left\nhint: a limit may be set (ulimit -v), or another process take it; ask for less\n"
)


def _said(given: list[str]) -> int:
    debug = "--debug" in given or os.environ.get("KVPLAN_DEBUG", "0") not in {"", "0"}
    try:
        return _run(given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except KvplanError as error:
        return _failed(error, debug=debug)
    except MemoryError:
        raise
    except OSError as error:
        return _failed(_of_the_machine(error) or _bug(error), debug=debug)
    except Exception as error:
        return _failed(_bug(error), debug=debug)


def _of_the_machine(error: OSError) -> BadFile | None:
    """The error for what the system says about a file; None if the error isn't about a file."""
    if error.filename is None:
        return None
    known = BadFile(f"{error.filename} can't be used", cause=error.strerror)
    known.__cause__ = error
    return known


def _bug(error: Exception) -> KvplanError:
    known = KvplanError(
        f"kvplan failed: {type(error).__name__}",
        cause=str(error) or None,
        hint="this is a bug in kvplan: run the command again with --debug, and report its output and that of `kvplan env`",
    )
    known.__cause__ = error
    return known


def _run(words: list[str]) -> int:
    import click

    from kvplan.cli.app import COMPLETE, NAME, build
    from kvplan.cli.streams import WRITING, nobody_reads, unwritable

    commands = build()
    try:
        if asked := os.environ.get(COMPLETE):
            from click.shell_completion import shell_complete

            return shell_complete(commands, {}, NAME, COMPLETE, asked)
        with commands.make_context(NAME, words) as context:
            code: int = commands.invoke(context)
            return code
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        raise _usage(error) from None
    except BrokenPipeError:
        nobody_reads()
        return 0
    except OSError as error:  # from click's own printing; kvplan reports its own
        if error.errno not in WRITING or error.filename is not None:
            raise
        raise unwritable(error.strerror) from None


def _usage(error: click.UsageError) -> UsageError:
    """The error that click found, with a hint."""
    import click

    path = error.ctx.command_path if error.ctx else "kvplan COMMAND"
    if isinstance(error, click.NoSuchOption) and path == "kvplan":
        return UsageError(error.message, cause="options go after the command", hint="kvplan size MODEL --ctx 8k")
    if isinstance(error, click.NoSuchOption) and (meant := _known_elsewhere(error.option_name, path)):
        return UsageError(error.message, hint=meant)
    if close := getattr(error, "possibilities", None):
        return UsageError(error.message, hint=f"did you mean {close[0]}?")
    return UsageError(error.format_message(), hint=f"{path} --help")


def _known_elsewhere(flag: str, path: str) -> str | None:
    """A hint for a flag that is the name of a format, or belongs to other commands."""
    from kvplan.cli.command import MODULES, load
    from kvplan.cli.options import FORMAT
    from kvplan.text import all_of

    rows = {name: load(name).options for name in MODULES}
    here = next((row for row in rows.get(path.rpartition(" ")[2], ()) if row.name == FORMAT.name), None)
    if here is not None and flag.lstrip("-") in here.choices:
        return f"{FORMAT.flag} {flag.lstrip('-')}"
    takers = [f"kvplan {name}" for name, options in rows.items() if any(row.flag == flag for row in options)]
    return f"{flag} is an option of {all_of(takers)}" if takers else None


def _failed(error: KvplanError, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    from kvplan.cli.streams import complain

    complain(error)
    return error.exit_code
