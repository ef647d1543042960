"""A serve command as it was read: its flags, the remarks about it, and why it may be unreadable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvplan.manifests.places import Key, Level, Place, Placed, Remark, Rule
from kvplan.manifests.shell.parser import Word

if TYPE_CHECKING:
    from kvplan.engines.vllm.tables.versions import Version


@dataclass(frozen=True, slots=True)
class GivenFlag:
    """A flag by its name without dashes, its text (None for a switch, and for what isn't text), and where it stands."""

    name: str
    text: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Command:
    """A serve command that was read.

    name: of its container, service or line. layer: what it says, by a budget's keys. noted: remarks that are right for
    any release that has what they are about. flags: every one that was given, to be held against the release that is asked for.
    elsewhere: whether its image's tag counts in another product's releases, so that nobody knows which vLLM it holds.
    version: the release that its own image has, as written; None where that isn't known.
    """

    name: str
    place: Place
    layer: Mapping[Key, Placed]
    noted: tuple[Remark, ...] = ()
    flags: tuple[GivenFlag, ...] = ()
    elsewhere: bool = False
    version: str | None = None

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What should be known before it is run on the release that its own image has."""
        return self.remarks_on(None)

    def remarks_on(self, version: str | None) -> tuple[Remark, ...]:
        """The same on another release: `0.19`; None leaves the image's."""
        from kvplan.manifests.flags import releases

        asked = releases.Asked(version or self.version, elsewhere=self.elsewhere)
        refused = releases.refused(self.flags, asked)
        noted = (remark for remark in self.noted if remark.about not in refused)
        return (*noted, *releases.remarks(self.flags, asked))


class CantRead(Exception):
    """Why a serve command can't be checked; `place` is where it stops making sense."""

    def __init__(self, why: str, place: Place) -> None:
        super().__init__(why)
        self.place = place


@dataclass(frozen=True, slots=True)
class Configured:
    """A `--config` file: its name in reports, its text, and the line of the file where that text starts."""

    name: str
    text: str
    first: int = 1


FindConfig = Callable[[str], Configured | None]
"""From the path in a command to the file's text, where that can be known."""


@dataclass(slots=True)
class Value:
    """A flag as given: its text (None for a bare switch), whether it is on, and where.

    unknown: whether some of the text is only known to the shell. why: that, as a sentence.
    """

    text: str | None
    place: Place
    on: bool = True
    tree: Any = None
    unknown: bool = False
    why: str = ""


@dataclass(slots=True)
class Arguments:
    """What the words say.

    subcommand: whether they follow `vllm serve`. release: of the image they are run in, None where that isn't known.
    model: as positional or flag.
    """

    file: str
    subcommand: bool = True
    release: Version | None = None
    model: Word | None = None
    flags: dict[str, Value] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    @property
    def given(self) -> tuple[GivenFlag, ...]:
        """Every flag, one by one."""
        return tuple(GivenFlag(name, value.text, value.place) for name, value in self.flags.items())

    def remark(
        self, rule: Rule, text: str, place: Place, level: Level = "warn", *, about: str = "", frees: bool = False
    ) -> None:
        """Note something once."""
        entry = Remark(rule, text, place, level, about, frees)
        if entry not in self.remarks:
            self.remarks.append(entry)


def tree_of(value: Value) -> Any:
    """JSON given as text, or built from nested flags."""
    if value.tree is not None or value.text is None:
        return value.tree
    try:
        return json.loads(value.text)
    except ValueError:
        return None
