"""The command line: parse, call, draw. `main` is the console script."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvplan.errors import KvplanError, UsageError

if TYPE_CHECKING:
    from kvplan.cli.command import Command
    from kvplan.cli.option import Values

INTERRUPTED = 130

FEW_COLLECTIONS = 50_000
"""Objects between two searches for garbage: a command makes thousands that live until it ends."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line and return the process's exit code: 0 yes, 1 no, 2 can't answer, 3 network, 130 Ctrl-C."""
    given = tuple(sys.argv[1:] if words is None else words)
    if words is None:
        gc.set_threshold(FEW_COLLECTIONS)
    debug = "--debug" in given or os.environ.get("KVPLAN_DEBUG", "0") not in {"", "0"}
    try:
        return _run(given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except KvplanError as error:
        return _failed(error, debug=debug)
    except Exception as error:
        from kvplan.cli.streams import bug

        problem = bug(error)
        known = KvplanError(problem.what, cause=problem.cause, hint=problem.hint)
        known.__cause__ = error
        return _failed(known, debug=debug)


def _run(words: tuple[str, ...]) -> int:
    from kvplan.cli import help as pages
    from kvplan.cli.command import MODULES, load
    from kvplan.cli.streams import deliver, say

    if not words:
        raise UsageError("which command?", cause=", ".join(MODULES), hint="kvplan --help")
    first, rest = words[0], words[1:]
    if first in {"-h", "--help", "help"}:
        say(pages.page(load(rest[0])) if rest and rest[0] in MODULES else pages.overview())
        return 0
    if first in {"-V", "--version"}:
        from kvplan import __version__

        say(f"kvplan {__version__}\n")
        return 0
    if first == "__complete":
        from kvplan.cli.completion import candidates

        say("".join(f"{word}\n" for word in candidates(rest)))
        return 0
    if first not in MODULES:
        raise _unknown(first, tuple(MODULES))
    command = load(first)
    if _asks_for_help(rest):
        say(pages.page(command))
        return 0
    values = _values(command, rest)
    answer = command.run(values)
    deliver(answer, values)
    return answer.exit_code


def _asks_for_help(words: Sequence[str]) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return "--help" in before or "-h" in before


def _values(command: Command, words: Sequence[str]) -> Values:
    from kvplan.cli import options, settings
    from kvplan.cli.parse import environment, parse, with_settings

    values = parse(command, words)
    files = settings.layers(command, values.get(options.CONFIG), files=not values.on(options.NO_CONFIG))
    return with_settings(command, values, environment(command, os.environ), *files)


def _unknown(word: str, known: tuple[str, ...]) -> UsageError:
    from kvplan.cli.option import nearest

    if word.startswith("-"):
        return UsageError(f"{word} stands before the command", hint="flags come after it: kvplan size MODEL --ctx 8k")
    close = nearest(word, known)
    hint = f"did you mean kvplan {close}?" if close else "commands: " + ", ".join(known)
    return UsageError(f"there is no command {word!r}", hint=hint)


def _failed(error: KvplanError, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    from kvplan.cli.streams import complain

    complain(error)
    return error.exit_code
