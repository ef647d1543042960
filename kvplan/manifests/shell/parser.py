"""A shell script's simple commands as words, without running anything.

Quotes, escapes, comments, continuations, known variables and arrays are resolved as a POSIX shell would; whatever only
a shell can know - an unset variable, `$(...)`, a positional parameter - becomes a word that says it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kvplan.manifests.installed.installs import Installed
from kvplan.manifests.shell import arithmetic
from kvplan.manifests.shell.brackets import closing
from kvplan.manifests.shell.expansion import Part, Pieces, set_inside
from kvplan.manifests.shell.flow import Flow
from kvplan.manifests.shell.interpreter import ASSIGNED, KEYWORDS, Shape
from kvplan.manifests.shell.variables import Variables
from kvplan.manifests.shell.word import Word

_PLAIN = re.compile(r"[^\s\\'\"$`#<>&;|()]+")
"""Signs that stand for themselves outside of quotes."""
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[\n;&|()]")
_REDIRECT = re.compile(r"\d*(?:&>>|&>|>>|<<<|<<-|<<|>&|<&|>\||<>|>|<)")
_APART = frozenset({"&", "|", "|&"})
"""Operators whose command runs in a shell of its own."""
_FUNCTION = re.compile(r"\([ \t]*\)")
BLANK = " \t\r"
__all__ = ["BLANK", "Script", "Word", "commands", "listed", "pairs", "surrounded"]

_SHOWING = frozenset({"cat", "echo", "printf", "less", "more"})


@dataclass(slots=True)
class _Scanner(Pieces):
    """A script on its way to commands.

    writes: whether the command's output goes into a file. shown: whether the last one only prints what it is given.
    written: whether its output went into a file.
    """

    skip_next: bool = False
    heredocs: list[str] = field(default_factory=list)
    heredoc_next: bool = False
    writes: bool = False
    shown: bool = False
    written: bool = False

    def run(self) -> None:
        while self.at < len(self.text):
            self.step()
        self.end_command()

    def only_words(self) -> tuple[Word, ...]:
        """The text as words, whatever they would mean as commands."""
        self.bare = True
        while self.at < len(self.text):
            if self.text[self.at] == "\n":
                self.end_word()
                self.line += 1
                self.at += 1
            else:
                self.step()
        self.end_word()
        return tuple(self.words)

    def step(self) -> None:
        """Read on by what stands here."""
        if plain := _PLAIN.match(self.text, self.at):
            self.add(plain[0])
            self.at = plain.end()
        else:
            _READERS.get(self.text[self.at], _Scanner.sign)(self)

    # what stands between words

    def blank(self) -> None:
        self.end_word()
        self.at += 1

    def comment(self) -> None:
        if self.part.started:
            self.sign()
            return
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def redirection(self) -> None:
        length = self.redirect()
        self.at += length
        if not length:
            self.sign()

    def sign(self) -> None:
        """An operator, or else a sign that stands for itself."""
        if not self.bare and not self.part.started and (inner := arithmetic.inside(self.text, self.at)) is not None:
            self.calculation(inner)
        elif operator := _OPERATOR.match(self.text, self.at):
            self.operator(operator[0])
        else:
            self.add(self.text[self.at])
            self.at += 1

    def calculation(self, expression: str) -> None:
        """`((EXPRESSION))`, which is a command of its own."""
        self.variables.doubt(arithmetic.assigned(expression))
        self.pending = False
        self.line += expression.count("\n")
        self.at += len(expression) + len("(())")

    # words, commands

    def redirect(self) -> int:
        match = _REDIRECT.match(self.text, self.at)
        if match is None or match[0] == "&":
            return 0
        if self.part.text.isdigit():
            self.part = Part()
        self.end_word()
        self.skip_next = True
        self.heredoc_next = match[0].lstrip("0123456789") in {"<<", "<<-"}
        self.writes = self.writes or ">" in match[0]
        return len(match[0])

    def end_word(self) -> None:
        if not self.part.started:
            return
        word = Word(self.part.text, self.part.line, self.part.unknown)
        self.part = Part()
        if self.skip_next:
            self.skip_next = False
            if self.heredoc_next:
                self.heredocs.append(word.text)
                self.heredoc_next = False
        else:
            self.words.append(word)
            if self.bare:
                return
            if len(self.words) == 1 and word.text in KEYWORDS:
                self.shape.keywords(self.words)
            elif len(self.words) == 2 and self.words[0].text == "function":
                self.shape.function_next, self.words = word.text, []

    def operator(self, operator: str) -> None:
        if operator == "(" and self.part.started and not self.bare and (match := ASSIGNED.fullmatch(self.part.text)):
            self.array(match[1], append=bool(match[2]))
            return
        if operator == "(" and not self.bare and (match := _FUNCTION.match(self.text, self.at)) and self.function():
            self.at += len(match[0])
            return
        if self.bare:
            self.end_word()
            self.at += len(operator)
            return
        self.end_command(apart=operator in _APART, behind=operator == "&")
        self.at += len(operator)
        if not self.continued(operator):
            self.shape.operator(operator)
        if operator == "\n":
            self.line += 1
            self.skip_heredocs()

    def function(self) -> bool:
        """Take the name before `()`, with or without a blank between; whether there is one, or `function NAME` was read."""
        name = Word(self.part.text, self.part.line) if self.part.started else next(iter(self.words), None)
        if name is not None:
            self.shape.function_next = name.text
            self.part, self.words = Part(), []
        return self.shape.function_next is not None

    def continued(self, operator: str) -> bool:
        """Whether the command before an operator goes on after it: into a pipe, or on the next line."""
        if operator != "\n":
            self.pending = operator in {"&&", "||", "|", "|&"}
            return operator in {"|", "|&"}
        return self.pending

    def array(self, name: str, *, append: bool) -> None:
        """`NAME=(...)`: the words up to the closing bracket."""
        self.shape.keywords(self.words)
        start, line = self.at, self.part.line
        end = closing(self.text, start, "(")
        self.part = Part()
        inner = self.text[start + 1 : end - 1]
        # Inside the brackets a new line only separates words, and leaves the count of lines as it is.
        found = _Scanner(inner, line, Shape(self.variables.within(inner))).only_words()
        before = self.variables.value(name) if append else ()
        if isinstance(before, tuple):
            (self.variables.grow if append else self.variables.keep)(name, (*before, *found))
        else:
            self.variables.doubt({name})
            self.variables.touch(name)
        self.line += inner.count("\n")
        self.at = end

    def skip_heredocs(self) -> None:
        for end in self.heredocs:
            start, line = self.at, self.line
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                body, self.at = self.text[self.at : stop], stop + 1
                self.line += 1
                if body.strip() == end:
                    break
            document = self.text[start : self.at]
            self.variables.doubt(set_inside(document))
            if not self.shown and not self.written:
                self.variables.flow.given(document, line)
            if not self.shown or "apiVersion:" in document:  # a manifest is printed for kubectl, not for people
                self.shape.heredocs.append((line, document))
        self.heredocs = []

    def end_command(self, *, apart: bool = False, behind: bool = False) -> None:
        """A command is complete. apart: whether it runs in a shell of its own: in the background (behind), or into a pipe."""
        self.end_word()
        self.skip_next = self.heredoc_next = False
        words, self.words = self.words, []
        if words:
            self.shown, self.written = words[0].text in _SHOWING and not self.writes, self.writes
            self.writes = False
        self.shape.command(words, apart=apart, behind=behind)


_READERS: Mapping[str, Callable[[_Scanner], None]] = {
    "\\": _Scanner.escape,
    "'": _Scanner.single,
    '"': _Scanner.double,
    "#": _Scanner.comment,
    **dict.fromkeys("$`", _Scanner.expansion),
    **dict.fromkeys(BLANK, _Scanner.blank),
    **dict.fromkeys("<>&", _Scanner.redirection),
}
"""Who reads on at a sign that isn't plain; others are operators, or stand for themselves."""


def commands(script: str, line: int = 1, variables: Mapping[str, str] | None = None) -> list[list[Word]]:
    """The simple commands of a script whose first line is `line`, with what is known of its variables."""
    return _read(script, line, variables or {}).commands


def listed(text: str, line: int = 1, variables: Mapping[str, str] | None = None) -> list[Word]:
    """A text that is words only, whatever they would mean as commands."""
    return list(_Scanner(text, line, Shape(Variables(text, dict(variables or {})))).only_words())


def pairs(words: Iterable[Word]) -> Iterator[tuple[str, str]]:
    """`NAME=value`, where the value is known."""
    for word in words:
        name, equals, value = word.text.partition("=")
        if equals and word.unknown is None:
            yield name, value


Ran: TypeAlias = tuple[list[Word], Mapping[str, str], Installed]
"""A command, what it certainly finds in its environment of the WATCHED variables, and what is installed before it."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that was read.

    commands: simple ones. heredocs: first line and text of what stands in it for others to read. installed: what is, after all of them.
    sure: numbers of those that certainly run, and whether the script goes on beside them.
    """

    commands: list[Ran]
    heredocs: list[tuple[int, str]]
    installed: Installed
    sure: Mapping[int, bool]


def surrounded(
    script: str,
    line: int = 1,
    variables: Mapping[str, str] | None = None,
    given: tuple[Word, ...] | None = None,
    elsewhere: frozenset[str] = frozenset(),
    installed: Installed | None = None,
    exported: frozenset[str] = frozenset(),
) -> Script:
    """The same, with what stands around them.

    given: what the script is started with, its name first, where that is known. elsewhere: variables that are set, to whatever.
    installed: what is, before the first of them. exported: variables that the script finds in its environment, set to whatever.
    """
    flow = Flow(installed or Installed())
    shape = _read(script, line, variables or {}, given, elsewhere, flow, exported)
    found = zip(shape.commands, shape.environments, map(flow.at, range(len(shape.commands))), strict=True)
    return Script(list(found), shape.heredocs, flow.now, shape.sure)


def _read(
    script: str,
    line: int,
    variables: Mapping[str, str],
    given: tuple[Word, ...] | None = None,
    elsewhere: frozenset[str] = frozenset(),
    flow: Flow | None = None,
    exported: frozenset[str] = frozenset(),
) -> Shape:
    known = Variables(
        script,
        dict(variables),
        set(elsewhere),
        exported={*variables, *elsewhere, *exported},
        given=given,
        flow=flow or Flow(),
    )
    shape = Shape(known)
    _Scanner(script, line, shape).run()
    return shape
