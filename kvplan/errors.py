"""What can go wrong, as one tree; every leaf knows its exit code and what to type next.

    KvplanError
    +-- UsageError           2  the command line or a call's arguments
    |   +-- UnknownName      2  a model, GPU, engine or format nobody knows by that name
    |   +-- BadSize          2  "24G" where bytes or tokens are needed
    |   +-- CannotSplit      2  a parallel size the model can't be divided by
    |   |   +-- NotSplit     2  one by which the engine itself divides no such model
    |   +-- WontStart        2  flags that the engine itself refuses to start with
    +-- ConfigError          2  the model's description can't be answered for
    |   +-- BadFile          2  not there, not JSON or YAML, too large, too deep
    |   +-- MissingField     2  a dimension is absent and nothing documents a default
    |   +-- BadField         2  a value is there but can't be a dimension
    |   +-- Unsupported      2  an architecture, layer type or format that isn't known
    |       +-- NotServed    2  a model that the engine itself doesn't load
    +-- CannotWrite          2  standard output is full, closed or broken
    +-- DoesNotFit           1  something was asked for that only a plan that fits has
    +-- SourceError          3  the Hub, the network or a licence gate
        +-- Offline          3  a network answer was needed and not allowed
        +-- NotFound         3  the Hub has no such repository, revision or file
        +-- Gated            3  the Hub wants a token or an accepted licence
        +-- Unreachable      3  no connection, a timeout, 429, 5xx, a truncated answer

Not fitting is an answer, not an error: see kvplan.plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Problem:
    """What the user reads: what went wrong, why, and what to type next."""

    what: str
    cause: str | None = None
    hint: str | None = None


class KvplanError(Exception):
    """Base of everything kvplan raises on purpose. It is caught once, by the command line.

    Attributes: `problem` (what, cause, hint) and `exit_code` (the process's).
    """

    exit_code = 2

    def __init__(self, what: str, *, cause: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.problem = Problem(what, cause, hint)

    def about(self, name: str) -> Self:
        """The same error, prefixed by what it is about: a flag, a field, an argument."""
        problem = self.problem
        return type(self)(f"{name}: {problem.what}", cause=problem.cause, hint=problem.hint)


class UsageError(KvplanError):
    """The arguments contradict each other or can't be read."""


class UnknownName(UsageError):
    """An unknown name. The hint has the nearest known ones."""


class BadSize(UsageError):
    """A size without a readable number or unit."""


class CannotSplit(UsageError):
    """A tensor, pipeline or context parallel size that doesn't divide the model."""


class NotSplit(CannotSplit):
    """A parallel size with which the engine itself refuses to start."""


class WontStart(UsageError):
    """Flags with which the engine itself refuses to start."""


class ConfigError(KvplanError):
    """The model's description isn't enough for an answer."""


class BadFile(ConfigError):
    """The file isn't there, or isn't what its name says."""


class MissingField(ConfigError):
    """A needed field is absent. `field` is the JSON path that was tried."""

    def __init__(self, field: str, *, cause: str | None = None, hint: str | None = None) -> None:
        super().__init__(
            f"{field} is missing",
            cause=cause,
            hint=hint
            or f"add {field.split(' or ', maxsplit=1)[0]} to the config, or describe the model in a kvplan YAML",
        )
        self.field = field


class BadField(ConfigError):
    """A field has a value that its meaning doesn't allow."""

    def __init__(
        self, field: str, value: object, wanted: str, *, cause: str | None = None, hint: str | None = None
    ) -> None:
        shown = "null" if value is None else repr(value)
        super().__init__(
            f"{field} is {shown if len(shown) <= 60 else shown[:57] + '...'}, not {wanted}", cause=cause, hint=hint
        )
        self.field = field


class Unsupported(ConfigError):
    """A model type, layer type or number format that kvplan doesn't know. It is refused, not guessed."""


class NotServed(Unsupported):
    """A model that the engine itself refuses to load."""


REFUSALS = (WontStart, NotSplit, NotServed)
"""Refusals of the engine itself, whatever the memory. `kvplan check` answers no, as for too little memory."""


class CannotWrite(KvplanError):
    """The answer can't be written to its destination: a full disk, a closed or broken stream."""


class DoesNotFit(KvplanError):
    """Something was asked for that only a plan that fits has, and this one doesn't fit."""

    exit_code = 1


class SourceError(KvplanError):
    """The source of a description didn't deliver it."""

    exit_code = 3


class Offline(SourceError):
    """A network answer is needed, and --offline or HF_HUB_OFFLINE forbids it."""


class NotFound(SourceError):
    """No such repository, revision or file on the Hub."""


class Gated(SourceError):
    """The repository needs a token or an accepted licence."""


class Unreachable(SourceError):
    """No connection, a timeout, a refusal, or an answer cut short."""
