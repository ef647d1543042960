"""What a shell script's variables certainly hold, as far as it was read: branches, loops and functions leave doubts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from kvplan.manifests.shell.flow import Flow
from kvplan.manifests.shell.word import Word

_SETTING = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)(?:\[[^\]\n]*\])?[ \t]*(?:(?:<<|>>|[-+*/%&^|:])?=(?!=)|\+\+|--)|(?:\+\+|--)([A-Za-z_]\w*)",
    re.ASCII,
)
SETTERS: Mapping[str, str] = {
    "read": "", "mapfile": "", "readarray": "", "getopts": "", "unset": "", "printf": "v", "wait": "p",
}  # fmt: skip
"""Commands that set the variables which their words name: the option before the name, where it takes one."""

SETTER = "|".join(
    rf"{name}(?=(?:[ \t]+-\w*)*[ \t]+-\w*{option})" if option else name for name, option in SETTERS.items()
)
"""A text in which one of them may set a variable, as far as its name."""
_READING = re.compile(rf"\b(?:{SETTER})\b([^\n;&|]*)")
_ITSELF = re.compile(r"\b([A-Za-z_]\w*)=\"?\$\{\1:?=", re.ASCII)
"""`NAME=${NAME:=...}`, which sets it once."""
_WORD = re.compile(r"(?<![\w$])-?[A-Za-z_]\w*", re.ASCII)
"""What may set a variable, wherever it stands in a script."""
_NUMBER = re.compile(r"0|[1-9]\d*", re.ASCII)
_REPEATED = frozenset({"loop", "function"})
"""Kinds of block that run later, or more than once."""


_ADDING = re.compile(r"(?<![\w$])([A-Za-z_]\w*)\+=\(", re.ASCII)
"""`NAME+=(`, which adds to an array."""


def named(word: str) -> frozenset[str]:
    """Variables that a word of one of SETTERS may name: `NAME`, `NAME[1]`, and NAME behind options, as in `-raNAME`."""
    plain = word.partition("[")[0]
    if not plain.startswith("-"):
        return frozenset({plain})
    return frozenset(plain[at:] for at in range(2, min(len(plain), MOST_OPTIONS)))


MOST_OPTIONS = 16
"""Letters before a name, which is more than any of them has options."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A text that more words may have been added to: between each two of its parts."""

    parts: tuple[str, ...]

    def shown(self, source: str) -> str:
        """The text with `source` where there may be more."""
        return f" {source} ".join(self.parts)


Held: TypeAlias = str | tuple[Word, ...] | Grown
"""What a variable holds: a text, an array, which may end in a word that stands for more, or a text that may go on."""


def opened(name: str, held: Held) -> Held:
    """The same, with more that may have been added to it."""
    if isinstance(held, str):
        return Grown((held, ""))
    if isinstance(held, Grown):
        return held if not held.parts[-1].strip() else Grown((*held.parts, ""))
    source = f"${{{name}[@]}}"
    if any(word.unknown == source for word in held):
        return held
    return (*held, Word(source, held[-1].line if held else 1, source))


@dataclass(slots=True)
class _Block:
    """Commands that may not run, or run often.

    names: variables set in it, which are certain only inside. grown: those of them that were only added to, with what they
    held before. function: the name of one. anything: whether it may set any. exported: what was, before it.
    """

    kind: str
    names: set[str] = field(default_factory=set)
    grown: dict[str, Held] = field(default_factory=dict)
    function: str | None = None
    anything: bool = False
    exported: frozenset[str] = frozenset()


@dataclass(slots=True)
class Variables:
    """The variables of a script.

    script: its text. held: those whose value is certain, a tuple for an array. doubtful: those set in a way that isn't.
    anything: whether something ran that may set any. shared: those that functions set. unruly: functions that may set any.
    references: those that stand for another one, by name; None where nobody knows for which. typed: those that make a
    number or other letters of what they are given. exported: those that commands find in their environment. exporting: whether
    every one is that is set from here on. given: what the script is started with, its name first; None where
    nobody knows. handed: whether the script itself has set that, to whatever. flow: what is installed meanwhile.
    """

    script: str
    held: dict[str, Held]
    doubtful: set[str] = field(default_factory=set)
    anything: bool = False
    shared: set[str] = field(default_factory=set)
    unruly: set[str] = field(default_factory=set)
    references: dict[str, str | None] = field(default_factory=dict)
    typed: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)
    exporting: bool = False
    given: tuple[Word, ...] | None = None
    handed: bool = False
    blocks: list[_Block] = field(default_factory=list)
    counted: Counter[str] | None = None
    flow: Flow = field(default_factory=Flow)

    @property
    def settings(self) -> Counter[str]:
        """How often the script sets each variable, counted once."""
        if self.counted is None:
            script = _ITSELF.sub(r"\1=${", self.script)
            self.counted = Counter(name for pair in _SETTING.findall(script) for name in pair if name)
            for words in _READING.findall(script):
                self.counted.update(name for word in _WORD.findall(words) for name in named(word))
        return self.counted

    @property
    def arguments(self) -> tuple[Word, ...] | None:
        """What `$0`, `$1` ... stand for here; None where nobody knows, as in functions."""
        return None if any(block.kind == "function" for block in self.blocks) else self.given

    @property
    def alone(self) -> bool:
        """Whether `$1` ... are what the script is started with by a person, who may leave them out."""
        inside = any(block.kind == "function" for block in self.blocks)
        return self.given is None and not self.handed and not inside

    def within(self, text: str) -> Variables:
        """What a part of the script starts with; what it sets stays inside it, what it puts in doubt doesn't."""
        return Variables(
            text,
            dict(self.held),
            self.doubtful,
            self.anything,
            self.shared,
            given=self.given,
            handed=self.handed,
            blocks=self.blocks,
            counted=self.settings,
        )

    def value(self, name: str) -> Held | None:
        """What a variable certainly holds here."""
        if not self.doubted(name):
            return self.held.get(name)
        return opened(name, self.held[name]) if self._gathered(name) else None

    def _gathered(self, name: str) -> bool:
        """Whether a variable is an array that is set once, and that nothing is done to in loops but adding to it."""
        sure = isinstance(self.held.get(name), tuple) and name not in self.doubtful and name not in self.shared
        if not sure or any(block.kind == "function" for block in self.blocks):
            return False
        added = _ADDING.findall(self.script).count(name)
        return self.settings[name] - added <= 1

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

    def keep(self, name: str, value: Held) -> None:
        """A variable is set, for the rest of the innermost block."""
        if self._changed(name, value):
            self.doubt({name})
            return
        self.doubtful.discard(name)
        self.held[name] = value
        self.exported |= {name} if self.exporting else set()
        self.touch(name)

    def _changed(self, name: str, value: Held) -> bool:
        """Whether a variable's type makes something else of a value."""
        plain = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
        return name in self.references or (name in self.typed and not plain)

    def touch(self, name: str) -> None:
        """A variable is set, to whatever: at the end of the innermost block it may hold something else."""
        if self.blocks:
            self.blocks[-1].names.add(name)
            self.blocks[-1].grown.pop(name, None)

    def grow(self, name: str, value: Held) -> None:
        """A variable is added to: what it held stays, whether the block runs or not."""
        before = self.value(name)
        block = self.blocks[-1] if self.blocks else None
        first = block is not None and name not in block.names
        before = block.grown.get(name, before if first else None) if block is not None else None
        self.keep(name, value)
        if block is not None and before is not None and name in self.held:
            block.grown[name] = before

    def unset(self, names: AbstractSet[str]) -> None:
        """These hold nothing from here on."""
        self.exported -= names
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
        self.blocks.append(_Block(kind, function=function, exported=frozenset(self.exported)))
        self.flow.open(kind, function)

    def call(self, name: str) -> None:
        """A command of this name runs: a function may set any variable."""
        if name in self.unruly:
            self.doubt_all()

    def close(self) -> frozenset[str]:
        """End the innermost block: what was set in it, which may not have been unless the block only groups."""
        if not self.blocks:
            return frozenset()
        block = self.blocks.pop()
        self.flow.close()
        if block.kind == "function":
            self.shared |= block.names
            self.unruly |= {block.function} if block.anything and block.function else set()
        self._settle(block, self.blocks[-1] if self.blocks else None)
        return frozenset(block.names)

    def _settle(self, block: _Block, outer: _Block | None) -> None:
        """What was set in a block, or in a branch of it, as it is after that."""
        grown = {} if block.kind == "function" else block.grown
        passed = {} if outer is None else {
            name: before for name, held in grown.items()
            if (before := outer.grown.get(name, held if name not in outer.names else None)) is not None
        }  # fmt: skip
        if block.kind != "group":
            self.exported &= block.exported
            self.doubt(block.names - grown.keys())
            self.held |= {name: opened(name, held) for name, held in grown.items()}
        if outer is not None:
            outer.names |= block.names
            outer.grown = {name: held for name, held in outer.grown.items() if name not in block.names} | passed

    def end_chain(self) -> None:
        """End every chain of && and || that is open."""
        while self.block == "chain":
            self.close()

    def turn(self) -> None:
        """Another branch of the innermost block begins."""
        self.flow.turn()
        if self.blocks:
            block, outer = self.blocks[-1], self.blocks[-2] if len(self.blocks) > 1 else None
            self._settle(block, outer)
            block.names.clear()
            block.grown.clear()
