"""The ways through a script: what each of its commands certainly finds installed, through branches, loops, chains and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kvplan.manifests.installed.installs import Installed, described, merged, own
from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.word import Word

_PREPARING = frozenset({
    "cd", "source", ".", "uv", "pip", "pip3", "conda", "mamba", "micromamba", "apt-get", "apt", "apk", "dnf", "yum", "mkdir", "git", "sudo",
    "curl", "wget", "module", "echo", "pushd", "popd", "chmod", "rm", "cp", "mv", "ulimit", "export", "set", "virtualenv",
    "deactivate", "ln", "python", "python3",
})  # fmt: skip
"""Commands before `&&` that are steps of their own, and no question whether to do the next one."""
_ASKING = frozenset({"-c", "diff", "show", "status", "check", "list", "freeze", "--version", "-V"})
"""Words after these that make a question of them."""
MOST_CALLED, MOST_DEEP = 2000, 50
"""Commands of functions that are followed where they are called, and functions that are followed inside of each other."""

_Event: TypeAlias = tuple[str, str, Sequence[Word], int]
"""What happened in a function: `open KIND`, `asked`, `path`, `turn`, `join OPERATOR`, `close`, or `run` and a command with its number."""


@dataclass(slots=True)
class _Block:
    """Commands that may not run. before: what was installed then. ways: what is after each branch of it that has ended.

    events: those of a function. sure: whether every command of a chain is a step, so that the next one runs. doubtful:
    whether something was installed where that isn't so. otherwise: whether `||` stands before. whole: whether one of its
    branches certainly runs, as the last one begins with `else`.
    """

    kind: str
    name: str | None
    before: Installed
    ways: list[Installed] = field(default_factory=list)
    events: list[_Event] = field(default_factory=list)
    sure: bool = True
    doubtful: bool = False
    otherwise: bool = False
    whole: bool = False


@dataclass(slots=True)
class Flow:
    """A script that is being followed. now: what is installed here. found: what each command found, by its number."""

    now: Installed = field(default_factory=Installed)
    found: dict[int, Installed] = field(default_factory=dict)
    called: dict[int, list[Installed]] = field(default_factory=dict)
    functions: dict[str, list[_Event]] = field(default_factory=dict)
    blocks: list[_Block] = field(default_factory=list)
    step: bool = True
    left: int = MOST_CALLED
    deep: int = 0

    def at(self, number: int) -> Installed:
        """What a command certainly finds: that of a function wherever it is called."""
        return merged(self.called[number]) if number in self.called else self.found.get(number, self.now)

    def open(self, kind: str, name: str | None = None) -> None:
        """A block begins."""
        self._note("open", kind)
        self.blocks.append(_Block(kind, name, self.now, sure=self.step))

    def join(self, operator: str) -> None:
        """`&&` or `||` stands between two commands of a chain."""
        self._note("join", operator)
        if self.blocks:
            self.blocks[-1].otherwise = operator == "||"

    def asked(self) -> None:
        """The condition of the innermost block ends: the first one is run in any case."""
        self._note("asked")
        if self.blocks and self.blocks[-1].kind in {"branch", "loop"} and not self.blocks[-1].ways:
            self.blocks[-1].before = self.now

    def turn(self, *, otherwise: bool = False) -> None:
        """Another branch of the innermost block begins. otherwise: whether that runs wherever the ones before don't."""
        self._note("turn", "else" if otherwise else "")
        if self.blocks and self.blocks[-1].kind != "chain":
            self.blocks[-1].whole = otherwise
            self.blocks[-1].ways.append(self.now)
            self.now = self.blocks[-1].before

    def close(self) -> None:
        """The innermost block ends."""
        if not self.blocks:
            return
        block, after = self.blocks.pop(), self.now
        if block.kind == "function":
            self.now = block.before
            if block.name is not None:
                self.functions[block.name] = block.events
            return
        self._note("close")
        if block.kind == "subshell":
            self.now = replace(block.before, held=after.held, checkouts=after.checkouts)
        elif block.doubtful or block.kind not in {"group", "chain"}:
            self.now = merged((*(() if block.whole else (block.before,)), *block.ways, after))
        self._chained(block.before)

    def _chained(self, before: Installed) -> None:
        """What was installed in a chain, of which nobody knows whether it goes on so far."""
        block = self.blocks[-1] if self.blocks else None
        if block is None or block.kind != "chain" or self.now is before:
            return
        if block.otherwise:
            self.now = merged((before, self.now))
        block.doubtful = block.doubtful or not block.sure

    def path(self, setting: Word) -> None:
        """PATH or PYTHONPATH is set."""
        self._note("path", "", [setting])
        self.now = self.now.on_path(setting)

    def given(self, document: str, line: int) -> None:
        """A here-document is read by a command, which may be a shell: what it installs isn't followed."""
        if (pin := described(document, line)) is not None:
            self.now = self.now.doubted(pin)

    def run(self, words: Sequence[Word], number: int) -> None:
        """A command."""
        self._note("run", "", words, number)
        self.found[number] = self.now
        self._follow(words)

    def _follow(self, words: Sequence[Word]) -> None:
        before = self.now
        if words[0].text in self.functions and not self._defining and self.deep < MOST_DEEP:
            self._call(words[0].text)
        else:
            self.now = before.after(words)
        self._chained(before)
        inner = own(words)
        self.step = bool(inner) and program(inner[0]) in _PREPARING and _ASKING.isdisjoint(word.text for word in words)
        if self.blocks and self.blocks[-1].kind == "chain":
            self.blocks[-1].sure = self.blocks[-1].sure and self.step

    def runs_of(self, name: str) -> Iterator[int]:
        """Numbers of the commands of a function; of none where there is no such function."""
        yield from (number for what, _, _, number in self.functions.get(name, ()) if what == "run")

    def _call(self, name: str) -> None:
        """A function runs: everything in it, once more."""
        events, depth = self.functions.pop(name), len(self.blocks)  # which keeps one that calls itself from doing so
        self.deep += 1
        saying: dict[str, Callable[[str], None]] = {"open": self.open, "join": self.join}
        for what, said, words, number in events:
            self.left -= 1
            if self.left < 0:
                break
            if what == "run":
                self.called.setdefault(number, []).append(self.now)
                self._follow(words)
            elif what == "path":
                self.path(words[0])
            elif what in saying:
                saying[what](said)
            elif what == "asked":
                self.asked()
            elif what == "turn":
                self.turn(otherwise=said == "else")
            elif len(self.blocks) > depth:
                self.close()
        while len(self.blocks) > depth:
            self.close()
        self.functions[name] = events
        self.deep -= 1

    @property
    def _defining(self) -> bool:
        return any(block.kind == "function" for block in self.blocks)

    def _note(self, what: str, said: str = "", words: Sequence[Word] = (), number: int = 0) -> None:
        """Keep what happens in a function, for where that is called."""
        block = next((block for block in reversed(self.blocks) if block.kind == "function"), None)
        if block is not None:
            block.events.append((what, said, words, number))
