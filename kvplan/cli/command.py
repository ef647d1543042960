"""What the file of a command holds: its name, its options, and the function that answers. Each command has one file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.cli.option import Argument, Option, Values

if TYPE_CHECKING:
    from kvplan.report.schema import Document


class Answer(NamedTuple):
    """A document to be printed, or plain text. exit_code: 1 for an answer that is no."""

    document: Document | None = None
    text: str = ""
    exit_code: int = 0


class Command(NamedTuple):
    """One command. about: a sentence. examples: command lines. more: what the help says at its end.

    reports_settings: whether it tells of settings that can't be read, and so runs without them.
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
"""Commands in the order of the help; each is COMMAND in kvplan/cli/commands/<name>.py, imported when it is used."""


def load(name: str) -> Command:
    """The command of that name, which must be one of MODULES."""
    from importlib import import_module

    command: Command = import_module(f"kvplan.cli.commands.{name}").COMMAND
    return command
