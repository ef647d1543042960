"""A shell script's simple commands as words, without running anything.

Quotes, escapes, comments, continuations, known variables and arrays are resolved as a POSIX shell would; whatever only
a shell can know - an unset variable, `$(...)`, a positional parameter - becomes a word that says it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.check.serving.variables import Variables

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.ASCII)
_DEFAULTED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-=])(.*)", re.DOTALL)
_OPERATORS = ("&&", "||", ";;", "|&", "\n", ";", "&", "|", "(", ")")
_REDIRECT = re.compile(r"\d*(?:&>>|&>|>>|<<<|<<-|<<|>&|<&|>\||<>|>|<)")
KEYWORDS = frozenset({
    "then", "do", "else", "elif", "if", "while", "until", "!", "time", "{", "}", "exec", "nohup", "command", "fi", "done",
    "esac",
})  # fmt: skip
_OPENING = {"if": "branch", "while": "loop", "until": "loop", "{": "group"}
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_HEADS = {"for": "loop", "select": "loop", "case": "branch"}
"""Words whose commands open a block; what follows them on the line is no command."""
_SETTING = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let", "unset"})
"""Commands whose words name variables that change in a way that isn't known."""
_RUNNING = frozenset({"source", ".", "eval"})
"""Commands that may change any variable."""
_FUNCTION = re.compile(r"\([ \t]*\)")
BLANK = " \t\r"
WATCHED = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN",)
"""Variables that vLLM itself looks at, and that decide whether it starts."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word. line: of the file it stands in. unknown: what in it only a shell could resolve; None when all is known.

    script, script_line: the same text as a shell should read it, where a file breaks its lines otherwise.
    """

    text: str
    line: int
    unknown: str | None = None
    script: str = ""
    script_line: int = 0


@dataclass(slots=True)
class _Part:
    """A word being put together."""

    text: str = ""
    started: bool = False
    unknown: str | None = None
    line: int = 0


@dataclass(slots=True)
class _Scanner:
    """A script on its way to commands.

    bare: whether the text is words only. environments: what each command finds in its own.
    """

    text: str
    line: int
    variables: Variables
    function_next: bool = False
    bare: bool = False
    at: int = 0
    commands: list[list[Word]] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    part: _Part = field(default_factory=_Part)
    skip_next: bool = False
    heredocs: list[str] = field(default_factory=list)
    heredoc_next: bool = False

    def run(self) -> list[list[Word]]:
        while self.at < len(self.text):
            self.step()
        self.end_command()
        return self.commands

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
        return tuple(word for command in self.commands for word in command) + tuple(self.words)

    def step(self) -> None:
        char = self.text[self.at]
        if char == "\\":
            self.escape()
        elif char == "'":
            self.single()
        elif char == '"':
            self.double()
        elif char in "$`":
            self.expand(quoted=False)
        elif char in BLANK:
            self.end_word()
            self.at += 1
        elif char == "#" and not self.part.started:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif char in "<>&" and (redirect := self.redirect()):
            self.at += redirect
        elif operator := next((op for op in _OPERATORS if self.text.startswith(op, self.at)), ""):
            self.operator(operator)
        else:
            self.add(char)
            self.at += 1

    # the pieces of a word

    def add(self, text: str, unknown: str | None = None) -> None:
        if not self.part.started:
            self.part = _Part(started=True, line=self.line)
        self.part.text += text
        self.part.unknown = self.part.unknown or unknown

    def escape(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "\n":
            self.line += 1
        elif self.text.startswith("\r\n", self.at + 1):
            self.line += 1
            self.at += 1
        else:
            self.add(following)
        self.at += 2

    def single(self) -> None:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        inner = self.text[self.at + 1 : end]
        self.add(inner)
        self.line += inner.count("\n")
        self.at = end + 1

    def double(self) -> None:
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
            else:
                self.line += char == "\n"
                self.add(char)
                self.at += 1
        self.at += 1

    def expand(self, *, quoted: bool) -> None:
        rest = self.text[self.at :]
        if rest.startswith("`"):
            end = rest.find("`", 1)
            self.hidden(rest[: len(rest) if end < 0 else end + 1])
        elif rest.startswith("$("):
            self.hidden(rest[: _closing(rest, 1, "(", ")")])
        elif rest.startswith("${"):
            whole = rest[: _closing(rest, 1, "{", "}")]
            self.at += len(whole)
            self.variable(whole[2:-1], whole, quoted=quoted)
        elif match := _NAME.match(rest, 1):
            self.at += 1 + len(match[0])
            self.variable(match[0], "$" + match[0], quoted=quoted)
        elif rest[1:2] and rest[1] in "@*#?-$!0123456789":
            self.hidden(rest[:2])
        else:
            self.add("$")
            self.at += 1

    def hidden(self, source: str) -> None:
        self.add(source, source)
        self.line += source.count("\n")
        self.at += len(source)

    def variable(self, inside: str, source: str, *, quoted: bool) -> None:
        name, array = inside.removesuffix("[@]").removesuffix("[*]"), inside.endswith(("[@]", "[*]"))
        value = self.variables.value(name)
        if value is None and (match := _DEFAULTED.fullmatch(inside)) and not self.variables.doubted(match[1]):
            held = self.variables.value(match[1])
            value = held if held else _unquoted(match[3])
            if "$" in str(value) or "`" in str(value):
                value = None
        if isinstance(value, tuple):
            self.splice(list(value) if array else list(value[:1]))
        elif value is None:
            self.add(source, source)
        elif quoted:
            self.add(value)
        else:
            self.unquoted(value)

    def unquoted(self, value: str) -> None:
        """An unquoted value is split at blanks: `$ARGS` may be several words."""
        pieces = value.split()
        if pieces and not value[:1].isspace():
            self.add(pieces.pop(0))
        for piece in pieces:
            self.end_word()
            self.add(piece)

    def splice(self, words: list[Word]) -> None:
        for index, word in enumerate(words):
            if index:
                self.end_word()
            self.add(word.text, word.unknown)
            self.part.line = word.line

    # words, commands

    def redirect(self) -> int:
        match = _REDIRECT.match(self.text, self.at)
        if match is None or match[0] == "&":
            return 0
        if self.part.text.isdigit():
            self.part = _Part()
        self.end_word()
        self.skip_next = True
        self.heredoc_next = match[0].lstrip("0123456789") in {"<<", "<<-"}
        return len(match[0])

    def end_word(self) -> None:
        if not self.part.started:
            return
        word = Word(self.part.text, self.part.line, self.part.unknown)
        self.part = _Part()
        if self.skip_next:
            self.skip_next = False
            if self.heredoc_next:
                self.heredocs.append(word.text)
                self.heredoc_next = False
        else:
            self.words.append(word)
            if len(self.words) == 1 and word.text in KEYWORDS and not self.bare:
                self.keywords()

    def operator(self, operator: str) -> None:
        if operator == "(" and self.part.started and (match := _ASSIGNED.fullmatch(self.part.text)):
            self.array(match[1], append=bool(match[2]))
            return
        if operator == "(" and self.part.started and (match := _FUNCTION.match(self.text, self.at)):
            self.part, self.words, self.function_next = _Part(), [], True
            self.at += len(match[0])
            return
        self.end_command()
        self.at += len(operator)
        self.structure(operator)
        if operator == "\n":
            self.line += 1
            self.skip_heredocs()

    def structure(self, operator: str) -> None:
        """Blocks that operators open and close."""
        variables = self.variables
        if operator in {"&&", "||"}:
            if variables.block != "chain":
                variables.open("chain")
            elif operator == "||":
                variables.turn()
            return
        if operator in {"|", "|&"}:
            return
        if operator == "\n" and self.text[: self.at - 1].rstrip().endswith(("&&", "||", "|")):
            return
        variables.end_chain()
        if operator == "(":
            variables.open("function" if self.function_next else "subshell")
            self.function_next = False
        elif operator == ")" and variables.block in {"subshell", "function"}:
            variables.close()
        elif operator == ";;":
            variables.turn()

    def keywords(self) -> None:
        """Take the words off that only give a script its shape, and follow it."""
        words, variables = self.words, self.variables
        while words and words[0].text in KEYWORDS:
            word = words.pop(0).text
            if word == "{" and self.function_next:
                variables.open("function")
                self.function_next = False
            elif word in _OPENING:
                variables.open(_OPENING[word])
            elif word in {"else", "elif"}:
                variables.turn()
            elif word in _CLOSING:
                variables.end_chain()
                variables.close()

    def heads(self) -> None:
        """Begin the block of `for`, `select`, `case` and `function`, whose own words are no command."""
        words = self.words
        if words and words[0].text in _HEADS:
            self.variables.open(_HEADS[words[0].text])
            if words[0].text != "case" and len(words) > 1:
                self.variables.doubt({words[1].text})
            words.clear()
        elif words and words[0].text == "function":
            self.function_next = True
            del words[:2]
            self.keywords()

    def changes(self, words: list[Word]) -> None:
        """What a command does to variables."""
        name = words[0].text if words else ""
        if name in _SETTING:
            changed = (word.text for word in words[1:] if not word.text.startswith("-"))
            self.variables.doubt({name.partition("[")[0] for name in changed})
        elif name in _RUNNING and not (words[1:] and words[1].text.endswith("bin/activate")):
            self.variables.doubt_all()

    def array(self, name: str, *, append: bool) -> None:
        """`NAME=(...)`: the words up to the closing bracket."""
        self.keywords()
        start, line = self.at, self.part.line
        length = _closing(self.text[start:], 0, "(", ")")
        self.part = _Part()
        inner = self.text[start + 1 : start + length - 1]
        # Inside the brackets a new line only separates words, and leaves the count of lines as it is.
        found = _Scanner(inner, line, self.variables.within(inner)).only_words()
        before = self.variables.value(name) if append else ()
        if isinstance(before, tuple):
            self.variables.keep(name, (*before, *found))
        else:
            self.variables.doubt({name})
            self.variables.touch(name)
        self.line += inner.count("\n")
        self.at = start + length

    def skip_heredocs(self) -> None:
        for end in self.heredocs:
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                body, self.at = self.text[self.at : stop], stop + 1
                self.line += 1
                if body.strip() == end:
                    break
        self.heredocs = []

    def end_command(self) -> None:
        self.end_word()
        self.skip_next = self.heredoc_next = False
        self.keywords()
        self.heads()
        words = self.words
        self.words = []
        exported = words and words[0].text in {"export", "declare", "local", "readonly", "set", "typeset"}
        if exported:
            words.pop(0)
            if any(word.unknown is not None and not _ASSIGNED.match(word.text) for word in words):
                self.variables.doubt_all()
        assigned: list[tuple[Word, re.Match[str]]] = []
        while words and (exported or _ASSIGNED.match(words[0].text)):
            word = words.pop(0)
            if match := _ASSIGNED.match(word.text):
                assigned.append((word, match))
        if words:  # `NAME=value command` sets it for that command alone
            self.changes(words)
            self.commands.append(words)
            self.environments.append(self.environment(assigned))
            return
        for word, match in assigned:
            self.assign(word, match)

    def environment(self, assigned: list[tuple[Word, re.Match[str]]]) -> dict[str, str]:
        held = {name: value for name in WATCHED if isinstance(value := self.variables.value(name), str)}
        return held | {match[1]: word.text[match.end() :] for word, match in assigned if word.unknown is None}

    def assign(self, word: Word, match: re.Match[str]) -> None:
        name, text = match[1], word.text[match.end() :]
        variables = self.variables
        appends = match[2] and (name in variables.held or variables.doubted(name))
        before = variables.value(name) if appends else ""
        if word.unknown is None and isinstance(before, str):
            variables.keep(name, before + text)
        else:
            variables.doubt({name})


def commands(script: str, line: int = 1, variables: Mapping[str, str] | None = None) -> list[list[Word]]:
    """The simple commands of a script whose first line is `line`, with what is known of its variables."""
    return _Scanner(script, line, Variables(script, dict(variables or {}))).run()


def surrounded(script: str) -> list[tuple[list[Word], dict[str, str]]]:
    """The simple commands of a script, each with what it certainly finds in its environment of the WATCHED variables."""
    scanner = _Scanner(script, 1, Variables(script, {}))
    found = scanner.run()
    return list(zip(found, scanner.environments, strict=True))


def _closing(text: str, start: int, opening: str, closing: str) -> int:
    """Length up to and including the bracket that closes the one at `start`; all of it when none does."""
    depth, quote = 0, ""
    for index in range(start, len(text)):
        char = text[index]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
