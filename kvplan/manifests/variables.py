"""What a shell script's variables certainly hold, as far as it was read: branches, loops and functions leave doubts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.manifests.words import Word

_SETTING = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)(?:\[[^\]\n]*\])?[ \t]*(?:(?:<<|>>|[-+*/%&^|:])?=(?!=)|\+\+|--)|(?:\+\+|--)([A-Za-z_]\w*)",
    re.ASCII,
)
_READING = re.compile(r"\b(?:read|mapfile|readarray|getopts|unset|printf[ \t]+-v)\b([^\n;&|]*)")
_ITSELF = re.compile(r"\b([A-Za-z_]\w*)=\"?\$\{\1:?=", re.ASCII)
"""`NAME=${NAME:=...}`, which sets it once."""
_WORD = re.compile(r"(?<![\w$])[A-Za-z_]\w*", re.ASCII)
"""What may set a variable, wherever it stands in a script."""
_NUMBER = re.compile(r"0|[1-9]\d*", re.ASCII)
_REPEATED = frozenset({"loop", "function"})
"""Kinds of block that run later, or more than once."""


@dataclass(slots=True)
class _Block:
    """Commands that may not run, or run often.

    names: variables set in it, which are certain only inside. function: the name of one. anything: whether it may set any.
    """

    kind: str
    names: set[str] = field(default_factory=set)
    function: str | None = None
    anything: bool = False


@dataclass(slots=True)
class Variables:
    """The variables of a script.

    script: its text. held: those whose value is certain, a tuple for an array. doubtful: those set in a way that isn't.
    anything: whether something ran that may set any. shared: those that functions set. unruly: functions that may set any.
    references: those that stand for another one, by name; None where nobody knows for which. typed: those that make a
    number or other letters of what they are given. given: what the script is started with, its name first; None where
    nobody knows.
    """

    script: str
    held: dict[str, str | tuple[Word, ...]]
    doubtful: set[str] = field(default_factory=set)
    anything: bool = False
    shared: set[str] = field(default_factory=set)
    unruly: set[str] = field(default_factory=set)
    references: dict[str, str | None] = field(default_factory=dict)
    typed: set[str] = field(default_factory=set)
    given: tuple[Word, ...] | None = None
    blocks: list[_Block] = field(default_factory=list)
    counted: Counter[str] | None = None

    @property
    def settings(self) -> Counter[str]:
        """How often the script sets each variable, counted once."""
        if self.counted is None:
            script = _ITSELF.sub(r"\1=${", self.script)
            self.counted = Counter(name for pair in _SETTING.findall(script) for name in pair if name)
            for words in _READING.findall(script):
                self.counted.update(_WORD.findall(words))
        return self.counted

    @property
    def arguments(self) -> tuple[Word, ...] | None:
        """What `$0`, `$1` ... stand for here; None where nobody knows, as in functions."""
        return None if any(block.kind == "function" for block in self.blocks) else self.given

    def within(self, text: str) -> Variables:
        """What a part of the script starts with; what it sets stays inside it, what it puts in doubt doesn't."""
        return Variables(
            text, dict(self.held), self.doubtful, self.anything, self.shared, given=self.given, blocks=self.blocks
        )

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
        if self._changed(name, value):
            self.doubt({name})
            return
        self.doubtful.discard(name)
        self.held[name] = value
        self.touch(name)

    def _changed(self, name: str, value: str | tuple[Word, ...]) -> bool:
        """Whether a variable's type makes something else of a value."""
        plain = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
        return name in self.references or (name in self.typed and not plain)

    def touch(self, name: str) -> None:
        """A variable is set, to whatever: at the end of the innermost block it may hold something else."""
        if self.blocks:
            self.blocks[-1].names.add(name)

    def unset(self, names: AbstractSet[str]) -> None:
        """These hold nothing from here on."""
        for name in names:
            self.held.pop(name, None)
            self.doubtful.discard(name)
            self.touch(name)

    def doubt(self, names: AbstractSet[str]) -> None:
        """These may hold anything from here on, and so may what they stand for."""
        meant = {self.references[name] for name in names & self.references.keys()}
        if None in meant:
            self.doubt_all()
        for name in {*names, *(name for name in meant if name is not None)}:
            self.doubtful.add(name)
            self.held.pop(name, None)
            self.touch(name)

    def doubt_all(self) -> None:
        """Every variable may, those that nobody has set yet included."""
        for block in self.blocks:
            block.anything = True
        held, self.anything = set(self.held), True
        self.doubt(held - self.references.keys())

    # blocks

    @property
    def block(self) -> str | None:
        """Kind of the innermost block."""
        return self.blocks[-1].kind if self.blocks else None

    def open(self, kind: str, function: str | None = None) -> None:
        """Begin a block: a `branch`, `loop`, `function`, `subshell`, `group`, or `chain` of && and ||."""
        self.blocks.append(_Block(kind, function=function))

    def call(self, name: str) -> None:
        """A command of this name runs: a function may set any variable."""
        if name in self.unruly:
            self.doubt_all()

    def close(self) -> frozenset[str]:
        """End the innermost block: what was set in it, which may not have been unless the block only groups."""
        if not self.blocks:
            return frozenset()
        block = self.blocks.pop()
        if block.kind == "function":
            self.shared |= block.names
            self.unruly |= {block.function} if block.anything and block.function else set()
        if block.kind != "group":
            self.doubt(block.names)
        if self.blocks:
            self.blocks[-1].names |= block.names
        return frozenset(block.names)

    def end_chain(self) -> None:
        """End every chain of && and || that is open."""
        while self.block == "chain":
            self.close()

    def turn(self) -> None:
        """Another branch of the innermost block begins."""
        if self.blocks:
            self.doubt({*self.blocks[-1].names})
            self.blocks[-1].names.clear()
