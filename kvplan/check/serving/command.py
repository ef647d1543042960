"""A serve command as it was read: what it says, what should be remarked, and why it may be unreadable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvplan.check.budget import Place, Remark
from kvplan.check.merge import Key, Placed
from kvplan.check.serving.words import Word
from kvplan.report.schema.check import Level

ENDLESS = -1
"""A context that vLLM is asked to choose itself: the longest that fits."""


@dataclass(frozen=True, slots=True)
class Command:
    """A serve command that was read. name: of its container, service or line. layer: what it says, by a budget's keys."""

    name: str
    place: Place
    layer: Mapping[Key, Placed]
    remarks: tuple[Remark, ...] = ()


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
    """A flag as given: its text (None for a bare switch), whether it is on, and where."""

    text: str | None
    place: Place
    on: bool = True
    tree: Any = None


@dataclass(slots=True)
class Arguments:
    """What the words say. subcommand: whether they follow `vllm serve`. model: as positional or flag."""

    file: str
    subcommand: bool = True
    model: Word | None = None
    flags: dict[str, Value] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def remark(self, rule: str, text: str, place: Place, level: Level = "warn") -> None:
        """Note something once."""
        entry = Remark(rule, text, place, level)
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
