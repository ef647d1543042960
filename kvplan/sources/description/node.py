"""Reads the values of a description, with errors that name the field, its line and a fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kvplan.arch.formats import Format, format_named
from kvplan.arch.model import Default
from kvplan.errors import BadField, BadSize, KvplanError, MissingField, Unsupported
from kvplan.sources.description.fields import CACHE_FIELDS, DOCUMENTED, KINDS, MOST, MOST_TOKENS
from kvplan.sources.strict import Lines, Path, path_text
from kvplan.text import meant
from kvplan.units import parse_tokens


@dataclass(slots=True)
class Reader:
    """What all parts of one description share: lines, name, and defaults used."""

    lines: Lines
    name: str
    defaulted: list[Default] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def place(self, path: Path) -> str:
        """`line 7 of model.yaml`, or the file alone."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"line {self.lines[path]} of {self.name}" if path in self.lines else f"in {self.name}"

    def default(self, name: str, value: object) -> None:
        """Record a default, once per field."""
        entry = Default(name, value, f"kvplan description, {DOCUMENTED}")
        if entry not in self.defaulted:
            self.defaulted.append(entry)


@dataclass(frozen=True, slots=True)
class Node:
    """A mapping in the description. inherited: the top level, whose cache fields apply to every layer."""

    values: Mapping[str, object]
    path: Path
    reader: Reader
    inherited: Mapping[str, object] = field(default_factory=dict)

    def only(self, known: frozenset[str], what: str = "a kvplan description") -> None:
        """Raises: Unsupported for a key that isn't one of `known`."""
        for key in self.values:
            if key not in known:
                raise _unknown(self, key, known, what)

    def find(self, key: str) -> tuple[Path, object]:
        """Place and value of a field, here or inherited; None if it is absent or null."""
        if self.values.get(key) is not None:
            return (*self.path, key), self.values[key]
        if self.inherited.get(key) is not None:
            self.reader.used.add(key)
            return (key,), self.inherited[key]
        return (*self.path, key), None

    def optional_whole(self, key: str, *, least: int = 1, most: int = MOST) -> int | None:
        """A whole number, or None if it isn't given."""
        path, value = self.find(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            known = f"a whole number from {least:,} to {most:,}" if least < most else f"{most:,}, the only one known"
            raise self.bad(path, value, known)
        return value

    def whole(self, key: str, *, least: int = 1, most: int = MOST) -> int:
        """A whole number."""
        value = self.optional_whole(key, least=least, most=most)
        if value is None:
            raise self.missing(key)
        return value

    def tokens(self, key: str) -> int | None:
        """A number of tokens: 4096, or 128k."""
        path, value = self.find(key)
        if isinstance(value, str):
            try:
                value = parse_tokens(value)
            except BadSize:
                raise self.bad(path, value, "a number of tokens like 4096 or 128k") from None
            if not 0 < value <= MOST_TOKENS:
                raise self.bad(path, value, f"a number of tokens from 1 to {MOST_TOKENS:,}")
            return value
        return self.optional_whole(key, most=MOST_TOKENS)

    def needed_tokens(self, key: str) -> int:
        """A number of tokens, which must be given."""
        value = self.tokens(key)
        if value is None:
            raise self.missing(key)
        return value

    def text(self, key: str) -> str:
        """A string."""
        path, value = self.find(key)
        if value is None:
            raise self.missing(key)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.bad(path, value, "a line of text")
        return value

    def format(self, key: str) -> Format | None:
        """A number format, or None if it isn't given."""
        if self.find(key)[1] is None:
            return None
        try:
            return format_named(self.text(key))
        except KvplanError as error:
            raise self.bad(self.find(key)[0], self.find(key)[1], "a number format", error.problem.hint) from None

    def switch(self, key: str, *, default: bool) -> bool:
        """True or false; `default` where it isn't given."""
        path, value = self.find(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.bad(path, value, "true or false")
        return value

    def children(self, key: str) -> Iterator[tuple[Path, object]]:
        """Items of a list, which must be given."""
        path, value = self.find(key)
        if value is None:
            raise self.missing(key)
        if not isinstance(value, list) or not value:
            raise self.bad(path, value, "a list")
        yield from (((*path, number), item) for number, item in enumerate(value))

    def child(self, path: Path, value: object) -> Node:
        """A mapping inside this one. It inherits nothing."""
        if not isinstance(value, Mapping):
            raise self.bad(path, value, "a mapping of fields")
        return Node(value, path, self.reader)

    def missing(self, key: str) -> MissingField:
        """The error for a field that must be given."""
        path = (*self.path, key)
        kind = f" of kind {self.values['kind']}" if isinstance(self.values.get("kind"), str) else ""
        where = f"a layer{kind} needs it: {self.reader.place(self.path)}" if self.path else self.reader.place(())
        hint = f"add `{key}: ...` there{', or at the top level for all layers' if key in CACHE_FIELDS else ''}"
        return MissingField(path_text(path), cause=where, hint=f"{hint}; {DOCUMENTED} lists the fields")

    def bad(self, path: Path, value: object, wanted: str, hint: str | None = None) -> BadField:
        """The error for a value that its field can't have."""
        return BadField(path_text(path), value, wanted, cause=self.reader.place(path), hint=hint)


def _unknown(node: Node, key: str, known: frozenset[str], what: str) -> Unsupported:
    kinds = [kind for kind, fields in KINDS.items() if key in fields]
    if kinds:
        hint = f"kinds of layer with {key}: {', '.join(kinds)}"
    else:
        hint = meant(key, sorted(known)) or f"known here: {', '.join(sorted(known))}"
    path = (*node.path, key)
    return Unsupported(f"{path_text(path)} is not a field of {what}", cause=node.reader.place(path), hint=hint)
