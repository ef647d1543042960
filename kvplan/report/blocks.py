"""The blocks that a page is made of, before they are drawn as text or as markdown.

Block = Heading | Verdict | Facts | Table | Bar | Tree | Note | Code
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvplan.report.schema.common import Explained


class Heading(NamedTuple):
    """A heading."""

    text: str


class Verdict(NamedTuple):
    """The answer in one line. good: whether it is the hoped-for one."""

    text: str
    good: bool


class Facts(NamedTuple):
    """Pairs of name and value, one per line."""

    pairs: tuple[tuple[str, str], ...]


class Column(NamedTuple):
    """A table's column. right: aligned right, for numbers. shrink: may be wrapped on a narrow page.

    stays: is left out only after the others if the page is too narrow for all. The first column is never left out.
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
    """The terms behind a number."""

    root: Explained


class Note(NamedTuple):
    """A sentence beside the answer."""

    text: str


class Code(NamedTuple):
    """Lines to copy. language: as markdown names it."""

    text: str
    language: str


Block = Heading | Verdict | Facts | Table | Bar | Tree | Note | Code
