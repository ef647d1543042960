"""The pieces of a shell's words: quotes, escapes and expansions, resolved as far as the script says what they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvplan.manifests.shell import arithmetic
from kvplan.manifests.shell.brackets import closing
from kvplan.manifests.shell.interpreter import Shape
from kvplan.manifests.shell.variables import Grown, Held, Variables
from kvplan.manifests.shell.word import Word

_QUOTED = re.compile(r"[^\"\\$`\n]+")
"""Signs that stand for themselves inside of double quotes."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULTED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[1-9])(:?[-=])(.*)", re.DOTALL)
_ALTERNATIVE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:?)\+([^$`'\"\\]*)", re.DOTALL)
"""`NAME:+WORD`, with a plain word."""
_ANSI = re.compile(r"\$'([^'\\]*)'")
"""A text in `$'...'` without escapes."""
_ARRAY_ALONE = re.compile(r'"(?:\$\{[A-Za-z_][A-Za-z0-9_]*\[@\]\}|\$@|\$\{@\})"')
_GUARDED = re.compile(r'([A-Za-z_][A-Za-z0-9_]*\[@\]|@):?\+"\$(?:\{\1\}|@)"')
"""`A[@]+"${A[@]}"`, which is the array where there is one."""
_SETS = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?:?=", re.ASCII)
"""Expansions that set what they stand for, inside of a text that isn't resolved."""


@dataclass(slots=True)
class Part:
    """A word being put together."""

    text: str = ""
    started: bool = False
    unknown: str | None = None
    line: int = 0


@dataclass(slots=True)
class Pieces:
    """A text on its way to words.

    line: of the file, at `at`. shape: what its words meant so far. bare: whether the text is words only. words: the
    finished ones. pending: whether nothing but blanks followed the last `&&`, `||` or `|`, so that the next line goes on.
    """

    text: str
    line: int
    shape: Shape
    bare: bool = False
    at: int = 0
    words: list[Word] = field(default_factory=list)
    part: Part = field(default_factory=Part)
    pending: bool = False

    @property
    def variables(self) -> Variables:
        """What the script's variables hold."""
        return self.shape.variables

    def end_word(self) -> None:
        """A word is complete."""
        raise NotImplementedError

    def add(self, text: str, unknown: str | None = None) -> None:
        """More of the word. unknown: what in it only a shell could resolve."""
        if not self.part.started:
            self.part = Part(started=True, line=self.line)
        self.pending = False
        self.part.text += text
        self.part.unknown = self.part.unknown or unknown

    def escape(self) -> None:
        """A backslash, and the sign that it protects."""
        following = self.text[self.at + 1 : self.at + 2]
        if not following:  # the end of the script
            pass
        elif following == "\n":
            self.line += 1
        elif self.text.startswith("\r\n", self.at + 1):
            self.line += 1
            self.at += 1
        else:
            self.add(following)
        self.at += 2

    def single(self) -> None:
        """A text in single quotes."""
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        inner = self.text[self.at + 1 : end]
        self.add(inner)
        self.line += inner.count("\n")
        self.at = end + 1

    def double(self) -> None:
        """A text in double quotes; nothing but an array that is empty is no word."""
        if _ARRAY_ALONE.match(self.text, self.at):
            self.at += 1
            self.expand(quoted=True)
            self.at += 1
            return
        self.add("")
        self.at += 1
        while self.at < len(self.text) and (char := self.text[self.at]) != '"':
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in {'"', "\\", "$", "`", "\n"}:
                following = self.text[self.at + 1]
                self.line += following == "\n"
                self.add("" if following == "\n" else following)
                self.at += 2
            elif char in "$`":
                self.expand(quoted=True)
            elif plain := _QUOTED.match(self.text, self.at):
                self.add(plain[0])
                self.at = plain.end()
            else:
                self.line += char == "\n"
                self.add(char)
                self.at += 1
        self.at += 1

    def expansion(self) -> None:
        """What begins with `$` or a backtick, outside of quotes."""
        self.expand(quoted=False)

    def expand(self, *, quoted: bool) -> None:
        """The same, anywhere."""
        text, at = self.text, self.at
        if not quoted and text.startswith("$'", at):
            self.ansi()
        elif not quoted and text.startswith('$"', at):
            self.at += 1
            self.double()
        elif text.startswith("`", at):
            end = text.find("`", at + 1)
            self.hidden(text[at : len(text) if end < 0 else end + 1])
        elif text.startswith("$((", at) and (inner := arithmetic.inside(text, at + 1)) is not None:
            self.calculated(inner, text[at : at + len(inner) + len("$(())")])
        elif text.startswith("$[", at):
            whole = text[at : text.find("]", at) + 1] or text[at:]
            self.calculated(whole[2:-1], whole)
        elif text.startswith("$(", at):
            self.hidden(text[at : closing(text, at + 1, "(")])
        elif text.startswith("${", at):
            whole = text[at : closing(text, at + 1, "{")]
            self.at += len(whole)
            self.variable(whole[2:-1], whole, quoted=quoted)
        elif match := _NAME.match(text, at + 1):
            self.at += 1 + len(match[0])
            self.variable(match[0], "$" + match[0], quoted=quoted)
        elif text[at + 1 : at + 2] and text[at + 1] in "@*#?-$!0123456789":
            self.special(text[at + 1], text[at : at + 2])
        else:
            self.add("$")
            self.at += 1

    def ansi(self) -> None:
        """`$'...'`; only a shell resolves the escapes in it."""
        if plain := _ANSI.match(self.text, self.at):
            self.add(plain[1])
            self.line += plain[1].count("\n")
            self.at = plain.end()
            return
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        self.hidden(self.text[self.at : end + 1])

    def special(self, sign: str, source: str) -> None:
        """`$@`, `$1` and the like, whose `source` stands here."""
        arguments = self.variables.arguments
        # Behind a word that may be several nobody can tell the numbers of others.
        before = (arguments or ())[min(int(sign), 1) : int(sign) + 1] if sign.isdigit() else ()
        unsure = any(word.unknown is not None for word in before)
        if arguments is None or unsure or sign in "*#?-$!":
            self.hidden(source)
            return
        self.at += len(source)
        self.splice(list(arguments[1:] if sign == "@" else arguments[int(sign) : int(sign) + 1]))

    def hidden(self, source: str) -> None:
        """Something that only a shell could resolve."""
        self.add(source, source)
        self.line += source.count("\n")
        self.at += len(source)

    def calculated(self, expression: str, source: str) -> None:
        """`$((EXPRESSION))`."""
        names = arithmetic.assigned(expression)
        self.variables.doubt(names | set_inside(expression))
        known = None if names else arithmetic.value(expression, self.variables.value)
        if known is None:
            self.hidden(source)
        else:
            self.add(str(known))
            self.line += source.count("\n")
            self.at += len(source)

    def variable(self, inside: str, source: str, *, quoted: bool) -> None:
        """`$NAME` or `${inside}`, whose `source` was passed."""
        if guarded := _GUARDED.fullmatch(inside):
            inside = guarded[1]
        if inside == "@":
            self.at -= len(source)
            self.special("@", source)
            return
        name, array = inside.removesuffix("[@]").removesuffix("[*]"), inside.endswith(("[@]", "[*]"))
        value = self.meant(name, inside, source)
        if isinstance(value, tuple):
            self.elements(list(value) if array else list(value[:1]), joined=quoted and inside.endswith("[*]"))
        elif isinstance(value, Grown):
            self.grown(value, source, quoted=quoted)
        elif value is None:
            self.add(source, source)
        elif quoted:
            self.add(value)
        else:
            self.unquoted(value)

    def meant(self, name: str, inside: str, source: str) -> Held | None:
        """What `${inside}` stands for, of the variable `name` or of one with an alternative; None where nobody knows."""
        value = self.variables.value(name)
        if (match := _ALTERNATIVE.fullmatch(inside)) is not None:
            held = self.variables.value(match[1])
            return (match[3] if held or not match[2] else "") if isinstance(held, str) else None
        if value is None and (match := _DEFAULTED.fullmatch(inside)) is not None:
            return self.defaulted(match)
        if value is None:
            self.variables.doubt(set_inside(source))
        return value

    def elements(self, words: list[Word], *, joined: bool) -> None:
        """An array's words; as a single one where they are joined."""
        if joined:
            unknown = next((word.unknown for word in words if word.unknown is not None), None)
            self.add(" ".join(word.text for word in words), unknown)
        else:
            self.splice(words)

    def grown(self, value: Grown, source: str, *, quoted: bool) -> None:
        """A text that may go on: what is known of it, and a word that may be any."""
        if quoted:
            self.add(value.shown(source), source)
            return
        for index, part in enumerate(value.parts):
            if index:
                self.end_word()
                self.add(source, source)
                self.end_word()
            self.unquoted(part)

    def defaulted(self, match: re.Match[str]) -> Held | None:
        """What `${NAME:-WORD}` stands for, or `${NAME:=WORD}`, which sets the variable to it; None where nobody can know."""
        name, sets = match[1], match[2].endswith("=")
        known, held = self.argument(int(name)) if name.isdigit() else self.held(name)
        empty = held is None or (match[2].startswith(":") and not held)
        value = self.default(match[3]) if known and empty else held
        if not known or value is None:
            self.variables.doubt({name} if sets else frozenset())
            self.variables.doubt(set_inside(match[3]))
            return None
        if sets and empty:
            self.variables.keep(name, value)
        return value

    def held(self, name: str) -> tuple[bool, Held | None]:
        """Whether it is certain what a variable holds, and that; None for nothing."""
        held = self.variables.value(name)
        return not self.variables.doubted(name) and "$" not in str(held) and "`" not in str(held), held

    def argument(self, number: int) -> tuple[bool, Held | None]:
        """The same of `$1` ..., which nobody gives a script that says what it does without."""
        if self.variables.alone:
            return True, None
        words = (self.variables.arguments or ())[: number + 1]
        unsure = self.variables.arguments is None or any(word.unknown is not None for word in words[1:])
        return not unsure, words[number].text if number < len(words) else None

    def default(self, word: str) -> str | None:
        """What a default comes to; None where nobody can know."""
        plain = _unquoted(word)
        if "$" not in plain and "`" not in plain:
            return plain
        if '"' in plain or "\\" in plain:
            return None
        inner = type(self)(f'"{plain}"', self.line, self.shape)
        inner.double()
        return inner.part.text if inner.part.unknown is None and inner.at == len(inner.text) else None

    def unquoted(self, value: str) -> None:
        """An unquoted value is split at blanks: `$ARGS` may be several words."""
        pieces = value.split()
        if pieces and not value[:1].isspace():
            self.add(pieces.pop(0))
        for piece in pieces:
            self.end_word()
            self.add(piece)

    def splice(self, words: list[Word]) -> None:
        """An array's words, each of its own."""
        for index, word in enumerate(words):
            if index:
                self.end_word()
            self.add(word.text, word.unknown)
            self.part.line = word.line


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def set_inside(text: str) -> frozenset[str]:
    """Variables that expansions inside of a text may set."""
    return frozenset(match[1] for match in _SETS.finditer(text)).union(*_calculated(text))


def _calculated(text: str) -> Iterator[frozenset[str]]:
    """What each `$((...))` in a text sets."""
    at = text.find("$((")
    while at >= 0:
        yield arithmetic.assigned(arithmetic.inside(text, at + 1) or "")
        at = text.find("$((", at + 1)
