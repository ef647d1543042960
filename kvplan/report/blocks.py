"""The blocks that a page is made of, before they are printed as text or as markdown.

Block = Heading | Verdict | Facts | Table | Bar | Tree | Note | Code
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvplan.report.schema.common import Explained


class Heading(NamedTuple):
    """What follows, in a few words."""

    text: str


class Verdict(NamedTuple):
    """The answer in one line. good: whether it is the answer one hopes for."""

    text: str
    good: bool


class Facts(NamedTuple):
    """Names and values, one a line."""

    pairs: tuple[tuple[str, str], ...]


class Column(NamedTuple):
    """A table's column. right: numbers. shrink: may be wrapped when the page is narrow.

    stays: is left out after the others when the page is too narrow for all; the first column always stays.
    """

    name: str
    right: bool = True
    shrink: bool = False
    stays: bool = False


class Table(NamedTuple):
    """Rows of text under columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


class Bar(NamedTuple):
    """Parts of a whole, as (name, amount, the amount in words)."""

    parts: tuple[tuple[str, int, str], ...]
    whole: int


class Tree(NamedTuple):
    """Where a number comes from."""

    root: Explained


class Note(NamedTuple):
    """A sentence beside the answer."""

    text: str


class Code(NamedTuple):
    """Lines to copy as they are. language: as a fence of markdown names it."""

    text: str
    language: str


Block = Heading | Verdict | Facts | Table | Bar | Tree | Note | Code
