"""What a script's words mean to it: blocks that open and close, variables that are set, and commands that remain."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kvplan.manifests.processes.environment import WATCHED
from kvplan.manifests.shell.arithmetic import assigned
from kvplan.manifests.shell.variables import SETTER, SETTERS, Grown, Held, Variables, named, opened
from kvplan.manifests.shell.word import Word

ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.ASCII)
KEYWORDS = frozenset({
    "then", "do", "else", "elif", "if", "while", "until", "!", "time", "{", "}", "exec", "nohup", "command", "builtin", "fi", "done",
    "esac",
})  # fmt: skip
_OPENING = {"if": "branch", "while": "loop", "until": "loop", "{": "group"}
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_HEADS = {"for": "loop", "select": "loop", "case": "branch"}
"""Words whose commands open a block; what follows them on the line is no command."""
_DECLARING = frozenset({"export", "declare", "local", "readonly", "set", "typeset"})
_ELEMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[.*?\]\+?=", re.ASCII | re.DOTALL)
"""`NAME[...]=`, which sets a part of an array."""
_TYPING = frozenset({"declare", "local", "typeset"})
"""Declarations whose options say what becomes of a value: `-i` calculates it, `-n` makes another name of a variable."""
_CHANGING = frozenset("ilu")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RUNNING = frozenset({"source", ".", "eval"})
"""Commands that may change any variable."""
_SOURCING = re.compile(rf"(?:^|[;&|\s])(?:source|\.|eval|let|{SETTER})\s|\(\(")
"""Commands inside of `eval`'s text that may change variables which it doesn't name."""
_SETS = re.compile(r"(?<![\w$-])([A-Za-z_][A-Za-z0-9_]*)\+?=", re.ASCII)


@dataclass(slots=True)
class Shape:
    """A script as far as it was read.

    function_next: the name of the function whose block opens next. closed: variables that the block sets
    which ended last, in the command that is being read. commands: simple ones. environments: what each of
    them finds in its own. heredocs: first lines and texts of here-documents. sure: numbers of the commands that no block
    holds, and whether the script goes on beside them. handed: what the calls of a function give each of its commands.
    """

    variables: Variables
    function_next: str | None = None
    closed: frozenset[str] = frozenset()
    commands: list[list[Word]] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    heredocs: list[tuple[int, str]] = field(default_factory=list)
    sure: dict[int, bool] = field(default_factory=dict)
    handed: dict[int, dict[str, str]] = field(default_factory=dict)

    def operator(self, operator: str) -> None:
        """Blocks that an operator between two commands opens and closes; not `|`, which leaves them as they are."""
        variables = self.variables
        if operator in {"&&", "||"}:
            if variables.block != "chain":
                variables.open("chain")
            elif operator == "||":
                variables.turn()
            variables.flow.join(operator)
            return
        variables.end_chain()
        if operator == "(":
            variables.open("subshell" if self.function_next is None else "function", self.function_next)
            self.function_next = None
        elif operator == ")" and variables.block in {"subshell", "function"}:
            variables.close()
        elif operator == ";;":
            variables.turn()

    def keywords(self, words: list[Word]) -> None:
        """Take the words off that only give a script its shape, and follow it."""
        variables = self.variables
        while words and words[0].text in KEYWORDS:
            word = words.pop(0).text
            if word == "{" and self.function_next is not None:
                variables.open("function", self.function_next)
                self.function_next = None
            elif word in _OPENING:
                variables.open(_OPENING[word])
            elif word in {"then", "do"}:
                variables.flow.asked()
            elif word in {"else", "elif"}:
                variables.turn()
            elif word in _CLOSING:
                variables.end_chain()
                self.closed = variables.close()

    def command(self, words: list[Word], *, apart: bool = False, behind: bool = False) -> None:
        """A command is complete: keep it, or set what it assigns. apart: whether in a shell of its own. behind: in the background."""
        self.keywords(words)
        closed, self.closed = self.closed, frozenset()
        if apart:
            self.variables.doubt(closed)
        self._heads(words)
        declares = bool(words) and words[0].text in _DECLARING
        if declares:
            self._declares(words)
        assigned: list[tuple[Word, re.Match[str]]] = []
        while words and (declares or ASSIGNED.match(words[0].text) or _ELEMENT.match(words[0].text)):
            word = words.pop(0)
            if match := ASSIGNED.match(word.text):
                assigned.append((word, match))
            elif match := _ELEMENT.match(word.text):
                self.variables.doubt({match[1]})
        self._paths(assigned)
        if words:  # `NAME=value command` sets it for that command alone
            self._changes(words)
            self.variables.flow.run(words, len(self.commands))
            if not self.variables.blocks:
                self.sure[len(self.commands)] = behind
            self.commands.append(words)
            self.environments.append(self._environment(assigned))
            self._hand_on(words[0].text)
            return
        for word, match in assigned:
            if apart:
                self.variables.doubt({match[1]})
            else:
                self._assign(word, match)

    def _hand_on(self, name: str) -> None:
        """A function's commands find what is exported where it is called; what two calls differ in, nobody knows."""
        here = self.environments[-1]
        for number in self.variables.flow.runs_of(name):
            known, before = self.environments[number], self.handed.get(number)
            agreed = here if before is None else dict(here.items() & before.items())
            own = known.keys() - (before or {}).keys()
            self.environments[number] = agreed | {key: known[key] for key in own}
            self.handed[number] = agreed

    def _paths(self, assigned: list[tuple[Word, re.Match[str]]]) -> None:
        """What a command sets PATH and PYTHONPATH to, whether for itself or from there on."""
        for word, match in assigned:
            if match[1] in {"PATH", "PYTHONPATH"}:
                self.variables.flow.path(word)

    def _declares(self, words: list[Word]) -> None:
        """What a declaration makes of the names after it, which are set as usual."""
        command = words.pop(0).text
        if command == "set":
            self._sets(words)
            words.clear()
        options = "".join(word.text for word in words if word.text.startswith("-")) if command in _TYPING else ""
        named = [word for word in words if not word.text.startswith("-")]
        names = {match[0] for word in named if (match := _NAME.match(word.text))}
        if "n" in options:
            for word in named:
                name, _, target = word.text.partition("=")
                self.variables.references[name] = target if word.unknown is None and target else None
            words.clear()
        elif set(options) & _CHANGING:
            self.variables.typed |= names
        self._exports(command, words, names)
        if any(word.unknown is not None and not ASSIGNED.match(word.text) for word in words):
            self.variables.doubt_all()

    def _exports(self, command: str, words: list[Word], names: set[str]) -> None:
        """`export NAME` and `declare -x NAME`; `export -n` and `declare +x` take it back."""
        options = "".join(word.text for word in words if word.text.startswith("-"))
        if (command == "export" and "n" in options) or any(word.text.startswith("+x") for word in words):
            self.variables.exported -= names
        elif command == "export" or (command in _TYPING and "x" in options):
            self.variables.exported |= names & WATCHED

    def _sets(self, words: list[Word]) -> None:
        """`set -- WORD...`, which is what the script is started with from there on; options alone change no variable."""
        at = 0
        while at < len(words) and words[at].text.startswith(("-", "+")) and words[at].text not in {"-", "--"}:
            text, named = words[at].text, words[at].text.endswith("o")  # -o NAME
            if "a" in text or (named and [word.text for word in words[at + 1 : at + 2]] == ["allexport"]):
                self.variables.exporting = text.startswith("-")
            at += 2 if named else 1
        if at >= len(words):
            return
        start = at + 1 if words[at].text in {"-", "--"} else at
        self.variables.handed = True
        self.variables.given = None if self.variables.blocks else (Word("", 1, "$0"), *words[start:])

    def _heads(self, words: list[Word]) -> None:
        """Begin the block of `for`, `select` and `case`, whose own words are no command."""
        if words and words[0].text in _HEADS:
            self.variables.open(_HEADS[words[0].text])
            if words[0].text != "case" and len(words) > 1:
                self.variables.doubt({words[1].text})
            words.clear()

    def _changes(self, words: list[Word]) -> None:
        """What a command does to variables."""
        name = words[0].text
        self.variables.call(name)
        if name == "unset":
            self._unset(words[1:])
        elif name in SETTERS:
            self.variables.doubt(frozenset().union(*(named(word.text) for word in words[1:])))
        elif name == "let":
            self.variables.doubt(frozenset().union(*(assigned(word.text) for word in words[1:])))
        elif name == "shift":
            self.variables.handed = self.variables.handed or self.variables.given is not None
            self.variables.given = None
        elif name == "eval" and all(word.unknown is None for word in words):
            text = " ".join(word.text for word in words[1:])
            if _SOURCING.search(text):
                self.variables.doubt_all()
            else:
                self.variables.doubt({match[1] for match in _SETS.finditer(text)})
        elif name in _RUNNING and not (words[1:] and words[1].text.endswith("bin/activate")):
            self.variables.doubt_all()

    def _unset(self, words: list[Word]) -> None:
        names = {word.text for word in words if not word.text.startswith("-")}
        if any(word.unknown is not None for word in words):
            self.variables.doubt_all()
        else:
            self.variables.doubt({name.partition("[")[0] for name in names if "[" in name})
            self.variables.unset({name for name in names if "[" not in name})

    def _environment(self, assigned: list[tuple[Word, re.Match[str]]]) -> dict[str, str]:
        names = self.variables.held.keys() & WATCHED & self.variables.exported
        held = {name: value for name in names if isinstance(value := self.variables.value(name), str)}
        # An empty default of its own leaves a variable as it is, whoever set it.
        passed = {match[1] for match in _PASSED.finditer(self.variables.script)} if "" in held.values() else frozenset()
        held = {name: value for name, value in held.items() if value or name not in passed}
        return held | {match[1]: word.text[match.end() :] for word, match in assigned if word.unknown is None}

    def _assign(self, word: Word, match: re.Match[str]) -> None:
        variables, name, text = self.variables, match[1], word.text[match.end() :]
        before = variables.value(name)
        appends = match[2] and (name in variables.held or variables.doubted(name))
        added = (
            None if isinstance(before, tuple) or before is None else _added(name, before, text, appends=bool(appends))
        )
        if before is not None and added is not None:
            known = word.unknown is None or (isinstance(before, Grown) and not _EXPANDED.search(added))
            variables.grow(name, _longer(before, added) if known else opened(name, before))
        elif word.unknown is not None or (appends and (not isinstance(before, str) or name in variables.typed)):
            variables.doubt({name})
        else:
            variables.keep(name, f"{before}{text}" if appends else text)


_PASSED = re.compile(r"\b([A-Za-z_]\w*)=[\"']?\$\{\1:?-[\"']*\}", re.ASCII)
"""`NAME=${NAME:-}`."""
_EXPANDED = re.compile("[$`]")


def _added(name: str, before: str | Grown, text: str, *, appends: bool) -> str | None:
    """What a text adds to what its variable held, in words of its own; None where it is another text."""
    if appends:
        return text if text[:1].isspace() else None
    shown = (before,) if isinstance(before, str) else (before.shown(f"${name}"), before.shown(f"${{{name}}}"))
    rest = next((text[len(each) :] for each in shown if text.startswith(each)), "")
    return rest if rest[:1].isspace() else None


def _longer(before: Held, added: str) -> Held:
    """A text with another behind it."""
    if isinstance(before, Grown):
        return Grown((*before.parts[:-1], before.parts[-1] + added))
    return f"{before}{added}"
