"""What a page is made of, before anyone decides whether it is text or markdown.

Block = Heading | Verdict | Facts | Table | Bar | Tree | Note
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.report.schema import Explained


@dataclass(frozen=True, slots=True)
class Heading:
    """What follows, in a few words."""

    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer in one line. good: whether it is the answer one hopes for."""

    text: str
    good: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, one a line."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column. right: numbers. shrink: may be wrapped when the page is narrow."""

    name: str
    right: bool = True
    shrink: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts of a whole, as (name, amount, the amount in words)."""

    parts: tuple[tuple[str, int, str], ...]
    whole: int


@dataclass(frozen=True, slots=True)
class Tree:
    """Where a number comes from."""

    root: Explained


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence beside the answer."""

    text: str


Block = Heading | Verdict | Facts | Table | Bar | Tree | Note
