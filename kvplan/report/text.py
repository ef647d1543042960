"""Blocks on a terminal: plain text of a given width, with or without colour, in Unicode or in ASCII.

Drawn here rather than with a library because the whole of `kvplan size` should take no longer than importing one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvplan.report.blocks import Bar, Block, Column, Facts, Heading, Note, Table, Tree, Verdict
from kvplan.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from kvplan.report.schema import Explained

WIDTH = 100
GAP = "  "
NARROWEST = 12

BOLD, DIM, GREEN, RED, CYAN = "1", "2", "32", "31", "36"
SHADES = (("▓", "#", "34"), ("▒", "+", "35"), ("░", "=", "33"), ("█", "@", "32"), ("·", ".", "2"))
"""Of a bar's parts in turn: Unicode, ASCII, colour."""

ASCII = str.maketrans({"─": "-", "│": "|", "├": "+", "└": "`", "·": "."})


class Canvas(NamedTuple):
    """Where text goes: columns, whether colour shows, whether more than ASCII does."""

    width: int = WIDTH
    colour: bool = False
    unicode: bool = True

    def paint(self, text: str, *codes: str) -> str:
        """Text in a colour, or as it is."""
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and codes else text


def draw(blocks: Sequence[Block], canvas: Canvas) -> str:
    """The page, ending with a newline."""
    lines: list[str] = []
    for index, block in enumerate(blocks):
        if index and not _belongs(block, blocks[index - 1]):
            lines.append("")
        lines += _lines(block, canvas)
    page = "\n".join(line.rstrip() for line in lines) + "\n"
    return page if canvas.unicode else page.translate(ASCII).encode("ascii", "replace").decode()


def _belongs(block: Block, before: Block) -> bool:
    """Whether it follows without an empty line: under a heading or verdict, or one of several notes."""
    return isinstance(before, Heading | Verdict) or (isinstance(block, Note) and isinstance(before, Note))


def _lines(block: Block, canvas: Canvas) -> Iterator[str]:
    match block:
        case Heading(text):
            yield from (canvas.paint(line, BOLD) for line in wrap(text, canvas.width))
        case Verdict(text, good):
            yield from (canvas.paint(line, BOLD, GREEN if good else RED) for line in wrap(text, canvas.width))
        case Facts(pairs):
            yield from _facts(pairs, canvas)
        case Table():
            yield from _table(block, canvas)
        case Bar():
            yield from _bar(block, canvas)
        case Tree(root):
            yield from _tree(root, canvas, "", "")
        case Note(text):
            yield from wrap(text, canvas.width)


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters, broken between words; a longer word is broken where it must be."""
    lines, line = [], ""
    for word in text.split():
        rest = word
        if line and len(line) + 1 + len(rest) <= width:
            line += " " + rest
            continue
        if line:
            lines.append(line)
        while len(rest) > width:
            lines.append(rest[:width])
            rest = rest[width:]
        line = rest
    return [*lines, line] if line or not lines else lines


def _facts(pairs: Sequence[tuple[str, str]], canvas: Canvas) -> Iterator[str]:
    left = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        first, *more = wrap(value, max(NARROWEST, canvas.width - left - len(GAP)))
        yield canvas.paint(name.ljust(left), DIM) + GAP + first
        yield from (" " * left + GAP + line for line in more)


def _table(table: Table, canvas: Canvas) -> Iterator[str]:
    widths = _widths(table, canvas.width)
    heads = [wrap(column.name, width) for column, width in zip(table.columns, widths, strict=True)]
    for line in _row(heads, table.columns, widths):
        yield canvas.paint(line, BOLD)
    yield canvas.paint(GAP.join("─" * width for width in widths), DIM)
    for row in table.rows:
        yield from _row([wrap(cell, width) for cell, width in zip(row, widths, strict=True)], table.columns, widths)


def _widths(table: Table, width: int) -> list[int]:
    """Width of each column; those that may shrink give way until the table fits."""
    widths = [
        max([len(column.name), *(len(row[index]) for row in table.rows)]) for index, column in enumerate(table.columns)
    ]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        wide = [index for index, column in enumerate(table.columns) if column.shrink and widths[index] > NARROWEST]
        if not wide:
            break
        widest = max(wide, key=lambda index: widths[index])
        taken = min(over, widths[widest] - NARROWEST, max(1, over // len(wide)))
        widths[widest] -= taken
        over -= taken
    return widths


def _row(cells: Sequence[list[str]], columns: Sequence[Column], widths: Sequence[int]) -> Iterator[str]:
    for at in range(max(map(len, cells))):
        parts = (lines[at] if at < len(lines) else "" for lines in cells)
        yield GAP.join(
            part.rjust(width) if column.right else part.ljust(width)
            for part, column, width in zip(parts, columns, widths, strict=True)
        )


def _bar(bar: Bar, canvas: Canvas) -> Iterator[str]:
    drawn, left = "", canvas.width
    legend: list[tuple[str, str]] = []
    for index, (name, size, words) in enumerate(bar.parts):
        block, ascii_block, colour = SHADES[min(index, len(SHADES) - 1)]
        cell = block if canvas.unicode else ascii_block
        cells = min(left, max(1, round(canvas.width * size / bar.whole))) if size > 0 else 0
        left -= cells
        drawn += canvas.paint(cell * cells, colour) if cells else ""
        legend.append((f"{cell} {name} {words}", f"{canvas.paint(cell, colour)} {name} {words}"))
    yield drawn
    yield from _legend(legend, canvas.width)


def _legend(entries: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Entries, as (what is counted, what is printed), as many on a line as fit."""
    counted, printed = 0, ""
    for bare, painted in entries:
        if printed and counted + 3 + len(bare) > width:
            yield printed
            counted, printed = 0, ""
        counted += len(bare) + (3 if printed else 0)
        printed += ("   " if printed else "") + painted
    yield printed


def _tree(node: Explained, canvas: Canvas, first: str, rest: str) -> Iterator[str]:
    head = f"{node.name}: {amount(node.value, node.unit)}"
    detail = [f"= {node.formula}"] if node.formula else []
    known = ", ".join(f"{name} {_said(value)}" for name, value in node.inputs.items() if value is not None)
    detail += [f"with {known}"] if known else []
    detail += [f"from {node.source}"] if node.source else []
    yield first + canvas.paint(head, BOLD)
    under = rest + ("│ " if node.children else "  ")
    for text in detail:
        yield from (under + canvas.paint(line, DIM) for line in wrap(text, max(NARROWEST, canvas.width - len(under))))
    for index, child in enumerate(node.children):
        last = index == len(node.children) - 1
        yield from _tree(child, canvas, rest + ("└ " if last else "├ "), rest + ("  " if last else "│ "))


def amount(value: float | None, unit: str) -> str:
    """A number as a person would say it: `40.00 GiB (42,949,672,960 B)`, `16.23 ms`, `162 sequences`."""
    if value is None:
        return "unknown"
    if unit == "bytes":
        return f"{format_bytes(int(value))} ({int(value):,} B)"
    if unit == "s":
        return format_seconds(float(value))
    return f"{value:,} {unit}".strip()


def _said(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
