"""What a shell script's variables certainly hold, as far as it was read: branches, loops and functions leave doubts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.manifests.words import Word

_SETTING = re.compile(r"(?<![\w$])([A-Za-z_][A-Za-z0-9_]*)\+?=")
_REPEATED = frozenset({"loop", "function"})
"""Kinds of block that run later, or more than once."""


@dataclass(slots=True)
class _Block:
    """Commands that may not run, or run often. names: variables set in it, which are certain only inside."""

    kind: str
    names: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Variables:
    """The variables of a script.

    script: its text. held: those whose value is certain, a tuple for an array. doubtful: those set in a way that isn't.
    anything: whether something ran that may set any. shared: those that functions set.
    """

    script: str
    held: dict[str, str | tuple[Word, ...]]
    doubtful: set[str] = field(default_factory=set)
    anything: bool = False
    shared: set[str] = field(default_factory=set)
    blocks: list[_Block] = field(default_factory=list)
    counted: Counter[str] | None = None

    @property
    def settings(self) -> Counter[str]:
        """How often the script sets each variable, counted once."""
        if self.counted is None:
            self.counted = Counter(_SETTING.findall(self.script))
        return self.counted

    def within(self, text: str) -> Variables:
        """What a part of the script starts with; what it sets stays inside it, what it puts in doubt doesn't."""
        return Variables(text, dict(self.held), self.doubtful, self.anything, self.shared, self.blocks)

    def value(self, name: str) -> str | tuple[Word, ...] | None:
        """What a variable certainly holds here."""
        return None if self.doubted(name) else self.held.get(name)

    def doubted(self, name: str) -> bool:
        """Whether a variable may hold something else than what is known of it."""
        if name in self.doubtful or (self.anything and name not in self.held):
            return True
        for block in reversed(self.blocks):
            if name in block.names:
                return False
            # What runs later or again sees whatever the rest of the script makes of a variable.
            if block.kind in _REPEATED and self.settings[name] > 1:
                return True
        return name in self.shared

    def keep(self, name: str, value: str | tuple[Word, ...]) -> None:
        """A variable is set, for the rest of the innermost block."""
        self.doubtful.discard(name)
        self.held[name] = value
        self.touch(name)

    def touch(self, name: str) -> None:
        """A variable is set, to whatever: at the end of the innermost block it may hold something else."""
        if self.blocks:
            self.blocks[-1].names.add(name)

    def doubt(self, names: AbstractSet[str]) -> None:
        """These may hold anything from here on."""
        self.doubtful |= names
        for name in names:
            self.held.pop(name, None)

    def doubt_all(self) -> None:
        """Every variable may, those that nobody has set yet included."""
        self.doubt(set(self.held))
        self.anything = True

    # blocks

    @property
    def block(self) -> str | None:
        """Kind of the innermost block."""
        return self.blocks[-1].kind if self.blocks else None

    def open(self, kind: str) -> None:
        """Begin a block: a `branch`, `loop`, `function`, `subshell`, `group`, or `chain` of && and ||."""
        self.blocks.append(_Block(kind))

    def close(self) -> None:
        """End the innermost block: what was set in it may not have been, unless it only groups."""
        if not self.blocks:
            return
        block = self.blocks.pop()
        if block.kind == "function":
            self.shared |= block.names
        if block.kind != "group":
            self.doubt(block.names)
        if self.blocks:
            self.blocks[-1].names |= block.names

    def end_chain(self) -> None:
        """End every chain of && and || that is open."""
        while self.block == "chain":
            self.close()

    def turn(self) -> None:
        """Another branch of the innermost block begins."""
        if self.blocks:
            self.doubt(self.blocks[-1].names)
            self.blocks[-1].names.clear()
