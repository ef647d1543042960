"""What a command's file defines: its name, its options, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.cli.option import Argument, Option, Values

if TYPE_CHECKING:
    from kvplan.report.schema import Document


class Answer(NamedTuple):
    """A document or plain text to print. exit_code: 1 for an answer that is no."""

    document: Document | None = None
    text: str = ""
    exit_code: int = 0


class Command(NamedTuple):
    """One command. about: one sentence. examples: command lines. more: added at the end of its help.

    reports_settings: whether it reports unreadable settings, and so runs without them.
    """

    name: str
    about: str
    run: Callable[[Values], Answer]
    examples: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option[Any], ...] = ()
    more: str = ""
    reports_settings: bool = False


MODULES = {
    "size": "what one sequence costs, in bytes",
    "fit": "whether it fits on these GPUs, how many at once, how long, how fast",
    "compare": "models, cache formats and attention kinds side by side",
    "verify": "proof on this machine: a real decode beside the prediction",
    "check": "memory budgets of deployments, for CI",
    "models": "the bundled models",
    "gpus": "the known accelerators, every fact with its source",
    "engines": "the engines whose rules are known, and their versions",
    "env": "versions, files and settings, for a bug report",
    "schema": "the JSON Schema of a document",
    "completion": "shell completion: bash, zsh or fish",
}
"""Commands in the order of the help. Each is COMMAND in kvplan/cli/commands/<name>.py, imported when it is used."""


def load(name: str) -> Command:
    """The command of that name, which must be one of MODULES."""
    from importlib import import_module

    command: Command = import_module(f"kvplan.cli.commands.{name}").COMMAND
    return command
