"""Words of files with the lines they are on: what every reader of manifests returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kvplan.manifests.flags.command import Command

Level = Literal["error", "warn"]

Rule = Literal[
    "gpu-name", "gpu-count", "bad-argument", "unknown-flag", "unread-arguments", "not-counted", "engine-version"
]
"""What a remark is about, for machines."""

RULES: dict[Rule, str] = {
    "gpu-name": "The file names the GPU that is planned on.",
    "gpu-count": "A container has the GPUs that its parallel sizes need.",
    "bad-argument": "vLLM can read every argument.",
    "unknown-flag": "Every flag is one of vLLM's.",
    "unread-arguments": "No argument is hidden in a variable.",
    "not-counted": "Every flag that takes memory is counted in the plan.",
    "engine-version": "The image, or what is installed, says which vLLM is run.",
}
"""Every rule, with a sentence for it."""

UNSEEN: Rule = "unread-arguments"
"""The rule of words that may be any flags."""

UNSAID_VERSION: Rule = "engine-version"
"""The rule of a version that is taken for granted."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line (from 1) of a file, as its path is written in reports."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something the reader of a serve command should know.

    about: the flag that it is about, which may not be there in every release. frees: whether that may leave so much memory
    free which a plan takes for used that too little of it is no answer.
    """

    rule: Rule
    text: str
    place: Place
    level: Level = "warn"
    about: str = ""
    frees: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """What looked like something to check and couldn't be read. found: whether a serve command certainly is there.

    command: one that was read but for values which a budget may say.
    """

    what: str
    why: str
    place: Place
    found: bool = False
    command: Command | None = None


Key = tuple[str, ...]
"""A key of a budget: ("model",) or ("parallel", "tp")."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A value and where it stands. own: in the deployment itself."""

    value: Any
    place: Place
    own: bool = False


class Given(Placed):
    """A value from a serve command."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Inside(Given):
    """A path in the container of a serve command, where nobody can look. where: that it is there, as the end of a sentence.

    sure: whether it certainly is a path, and no model's name on the Hub: `./models/a`, not `models/a`.
    """

    where: str = "in its container"
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Hidden(Given):
    """A value that stands in a serve command, and that only whoever runs it knows: `$LEN`. why: that, as a sentence."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Outside(Given):
    """A path of this machine that is mounted into the container of a serve command. written: what the command calls it."""

    written: str = ""


def as_written(placed: Placed) -> str:
    """A value as its file has it."""
    return placed.written if isinstance(placed, Outside) else str(placed.value)
