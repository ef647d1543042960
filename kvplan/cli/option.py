"""A flag as a row of a table: its name on the command line, in the environment and in a file, and how its value is read.

The same row makes click's option, and so the parser, `--help`, completion and the manual.
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
    """A flag with a value (`metavar` says of what), or a switch (metavar None).

    name: as in a file; the flag is --name with dashes, the variable KVPLAN_NAME. default: in words, for the help.
    short: one letter. repeats: may be given several times. completes: what completes its value. choices: all values that
    there are, or all words of a list. settable: whether the environment and files may give it.
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
        """`--kv-dtype`."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """`KVPLAN_KV_DTYPE`."""
        return "KVPLAN_" + self.name.upper()


class Argument(NamedTuple):
    """What stands on the command line without a flag. least, most: how many; most None is any number."""

    name: str
    help: str
    least: int = 0
    most: int | None = 1
    completes: str | None = None


class Values:
    """Everything given to one command, read by the rows."""

    def __init__(self, context: click.Context):
        self._context = context

    @property
    def arguments(self) -> tuple[str, ...]:
        """What stands on the command line without a flag, in order."""
        found = [
            self._context.params[row.name] for row in self._context.command.params if isinstance(row, click.Argument)
        ]
        return tuple(word for value in found for word in ((value,) if isinstance(value, str) else value or ()))

    def get(self, option: Option[T]) -> T | None:
        """The value, or None when nobody gave one."""
        value: T | None = self._context.params.get(option.name)
        return value

    def all(self, option: Option[T]) -> tuple[T, ...]:
        """Every value of an option that repeats."""
        values: tuple[T, ...] = self._context.params.get(option.name, ())
        return values

    def on(self, option: Option[bool]) -> bool:
        """Whether a switch is on."""
        return self.get(option) is True

    def flagged(self, option: Option[T]) -> bool:
        """Whether it stands on the command line itself."""
        return self._context.get_parameter_source(option.name) == ParameterSource.COMMANDLINE

    def beaten(self, option: Option[T], by: Option[Any]) -> bool:
        """Whether `by` stands nearer and says something else: a flag beats the environment and files."""
        return self.flagged(by) and not self.flagged(option)

    def was_given(self, option: Option[T]) -> bool:
        """Whether it has a value that isn't a default."""
        return self._context.get_parameter_source(option.name) not in {None, ParameterSource.DEFAULT}


def switch(text: str) -> bool:
    """A switch has no text to be read: click knows what is yes and no in the environment and files."""
    return bool(text)


def natural(text: str) -> int:
    """A whole number from 0.

    Raises: BadSize.
    """
    return parse_whole(text, least=0)


def words(text: str) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
