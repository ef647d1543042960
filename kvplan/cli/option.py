"""A flag as a row of a table: its name on the command line, in the environment and in a file, and how it is read.

The same row makes the parser, `--help`, completion, the manual and the precedence

    flag > KVPLAN_NAME > ./kvplan.toml or [tool.kvplan] in ./pyproject.toml > user's config > default
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kvplan.errors import KvplanError, UsageError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Option(NamedTuple, Generic[T_co]):
    """A flag with a value (`metavar` says of what), or a switch (metavar None).

    name: as in a file; the flag is --name with dashes, the variable KVPLAN_NAME. default: in words, for the help.
    short: one letter. repeats: may be given several times. completes: what completes its value. settable: whether the
    environment and files may give it.
    """

    name: str
    help: str
    parse: Callable[[str], T_co]
    metavar: str | None = None
    default: str = ""
    short: str | None = None
    repeats: bool = False
    completes: str | None = None
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


class Given(NamedTuple):
    """A value as text, and where it was given: "--tp", "KVPLAN_TP", "./kvplan.toml"."""

    text: str
    place: str


class Values(NamedTuple):
    """Everything given to one command, read on demand by the option that knows how."""

    arguments: tuple[str, ...] = ()
    given: Mapping[str, tuple[Given, ...]] = {}

    def get(self, option: Option[T]) -> T | None:
        """The value, or None when nobody gave one.

        Raises: UsageError naming the place, when it can't be read.
        """
        all_given = self.given.get(option.name)
        return _read(option, all_given[-1]) if all_given else None

    def all(self, option: Option[T]) -> tuple[T, ...]:
        """Every value of an option that repeats."""
        return tuple(_read(option, given) for given in self.given.get(option.name, ()))

    def on(self, option: Option[bool]) -> bool:
        """Whether a switch is on."""
        return self.get(option) is True

    def flagged(self, option: Option[T]) -> bool:
        """Whether it stands on the command line itself."""
        return any(given.place == option.flag for given in self.given.get(option.name, ()))

    def beaten(self, option: Option[T], by: Option[Any]) -> bool:
        """Whether `by` stands nearer and says something else: a flag beats the environment and files."""
        return self.flagged(by) and not self.flagged(option)

    def was_given(self, *options: Option[T]) -> bool:
        """Whether any of them has a value."""
        return any(option.name in self.given for option in options)


def _read(option: Option[T], given: Given) -> T:
    try:
        return option.parse(given.text)
    except KvplanError as error:
        problem = error.problem
        known = type(error)(f"{given.place}: {problem.what}", cause=problem.cause, hint=problem.hint)
        raise known from None


def switch(text: str) -> bool:
    """A switch's value in the environment or a file.

    Raises: UsageError.
    """
    word = text.strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"", "0", "false", "no", "off"}:
        return False
    raise UsageError(f"{text!r} is neither yes nor no", hint="write 1 or 0")


def whole(text: str) -> int:
    """A whole number from 1.

    Raises: UsageError.
    """
    if not text.strip().isascii() or not text.strip().isdigit() or not 0 < int(text) < 2**31:
        raise UsageError(f"{text!r} is not a whole number from 1", hint="write it like 8")
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0.

    Raises: UsageError.
    """
    return 0 if text.strip() == "0" else whole(text)


def fraction(text: str) -> float:
    """A share between 0 and 1: `0.92` or `92%`.

    Raises: UsageError.
    """
    bare = text.strip()
    try:
        value = float(bare.removesuffix("%")) / (100 if bare.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise UsageError(f"{text!r} is not a share of the memory", hint="write it like 0.92 or 92%")
    return value


def words(text: str) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None
