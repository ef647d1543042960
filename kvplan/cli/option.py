"""Flags as rows of a table: names on the command line, in the environment and in files, and how values are read.

click's options, and so the parser, `--help`, completion and the manual, are made from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from kvplan.units import parse_whole

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Option(NamedTuple, Generic[T_co]):
    """A flag with a value, or a switch if `metavar` is None.

    name: in a settings file; the flag is --name with dashes, the variable KVPLAN_NAME. metavar: the value in the help.
    default: in words, for the help. short: one letter. repeats: may be given several times. completes: the kind of its
    completions. choices: all possible values, or all words of a list. settable: by the environment and files too.
    """

    name: str
    help: str
    parse: Callable[[str], T_co]
    metavar: str | None = None
    default: str = ""
    short: str | None = None
    repeats: bool = False
    completes: str | None = None
    choices: tuple[str, ...] = ()
    settable: bool = True

    @property
    def flag(self) -> str:
        """Its name on the command line: `--kv-dtype`."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment: `KVPLAN_KV_DTYPE`."""
        return "KVPLAN_" + self.name.upper()


class Argument(NamedTuple):
    """A positional argument. least, most: how many; most None for any number."""

    name: str
    help: str
    least: int = 0
    most: int | None = 1
    completes: str | None = None


class Values:
    """Everything given to one command, looked up by row."""

    def __init__(self, context: click.Context):
        self._context = context

    @property
    def arguments(self) -> tuple[str, ...]:
        """The positional arguments, in order."""
        found = [
            self._context.params[row.name] for row in self._context.command.params if isinstance(row, click.Argument)
        ]
        return tuple(word for value in found for word in ((value,) if isinstance(value, str) else value or ()))

    def get(self, option: Option[T]) -> T | None:
        """The value, or None if none was given."""
        value: T | None = self._context.params.get(option.name)
        return value

    def all(self, option: Option[T]) -> tuple[T, ...]:
        """All values of an option that repeats."""
        values: tuple[T, ...] = self._context.params.get(option.name, ())
        return values

    def on(self, option: Option[bool]) -> bool:
        """Whether a switch is on."""
        return self.get(option) is True

    def flagged(self, option: Option[T]) -> bool:
        """Whether it is on the command line."""
        return self._context.get_parameter_source(option.name) == ParameterSource.COMMANDLINE

    def beaten(self, option: Option[T], by: Option[Any]) -> bool:
        """Whether `by` is on the command line and this one isn't, so that it overrides the environment and files."""
        return self.flagged(by) and not self.flagged(option)

    def was_given(self, option: Option[T]) -> bool:
        """Whether its value isn't a default."""
        return self._context.get_parameter_source(option.name) not in {None, ParameterSource.DEFAULT}


def switch(text: str) -> bool:
    """Marks a row as a switch. It is never called, because click reads switches itself."""
    return bool(text)


def natural(text: str) -> int:
    """A whole number from 0.

    Raises: BadSize.
    """
    return parse_whole(text, least=0)


def words(text: str) -> tuple[str, ...]:
    """A comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
