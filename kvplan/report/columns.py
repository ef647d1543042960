"""Widths of a table's columns on a page that is too narrow for all of it.

Until the table fits, in this order: headings are wrapped between words; columns that may shrink are wrapped; the first
column, which names the row, is broken at punctuation; columns are left out from the right, those marked to stay last
and the first never.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from kvplan.report.blocks import Column

NARROWEST, GAP = 12, 2

_PIECES = re.compile(r"(?<=[-/_=\[])(?=\w)|(?<=,)(?=[A-Za-z])|(?<=\s)(?<!\d\s)|(?<=\d\s)(?![A-Za-z])")
"""Where a text may be broken: after punctuation within a name, and after a space, but not between number and unit."""


def fitted(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indices of the columns to draw, and their widths.

    cells: of each column, its name first. width: of the page.
    """
    widest = [_widest(texts) for texts in cells]
    least = [_least(column, texts) for column, texts in zip(columns, cells, strict=True)]
    least[0] = min(widest[0], max(_piece(cells[0]), NARROWEST)) if columns[0].shrink else least[0]
    chosen = list(range(len(columns)))
    while len(chosen) > 1 and _total(least[index] for index in chosen) > width:
        chosen.remove(max(chosen[1:], key=lambda index: (not columns[index].stays, index)))
    widths = {index: widest[index] for index in chosen}
    for turn in range(3):
        may = [index for index in chosen if (2 if index == 0 else columns[index].shrink) == turn]
        while _total(widths.values()) > width and any(widths[index] > least[index] for index in may):
            widths[max(may, key=lambda index: (widths[index] > least[index], widths[index]))] -= 1
    return tuple(chosen), tuple(min(widths[index], max(1, width - 1)) for index in chosen)


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most `width` cells. A word is broken only if it is wider than a line."""
    if cell_len(text) <= width:
        return text
    lines = [""]
    for piece in _PIECES.split(text):
        if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
        while cell_len(lines[-1].rstrip()) > width:
            cut = next(n for n in range(len(lines[-1]), 0, -1) if n == 1 or cell_len(lines[-1][:n]) <= width)
            lines[-1:] = [lines[-1][:cut], lines[-1][cut:]]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _total(widths: Iterable[int]) -> int:
    """Width of a table in cells, with the gap after its last column."""
    known = list(widths)
    return sum(known) + GAP * (len(known) - 1) + 1


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts))


def _piece(texts: Iterable[str]) -> int:
    """Width of the widest piece that can't be broken."""
    return max(cell_len(piece.rstrip()) for text in texts for piece in _PIECES.split(text))


def _least(column: Column, texts: Sequence[str]) -> int:
    """Least width of a column: headings can be wrapped, cells only if the column may shrink, numbers never."""
    if column.shrink:
        return min(_widest(texts), _piece(texts) if column.right else max(_piece(texts[:1]), NARROWEST))
    return max(_piece(texts[:1]), _widest(texts[1:]) if len(texts) > 1 else 0)
