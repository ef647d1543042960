"""Draws blocks as text on a terminal, with rich."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from kvplan.report import columns
from kvplan.report.blocks import Bar, Block, Code, Facts, Heading, Note, Table, Tree, Verdict
from kvplan.report.canvas import NARROWEST_PAGE, Canvas
from kvplan.report.views.words import amount, inputs

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree as Branch

    from kvplan.report.schema.common import Explained

__all__ = ["Canvas", "draw"]

NARROWEST = 12

SHADES = (("▓", "#", "blue"), ("▒", "+", "magenta"), ("░", "=", "yellow"), ("█", "@", "green"), ("·", ".", "dim"))
"""Characters and colour for each part of a bar: Unicode, ASCII, colour."""


def draw(blocks: Sequence[Block], canvas: Canvas) -> str:
    """The page, ending with a newline."""
    console = canvas.console()
    with console.capture() as page:
        for index, block in enumerate(blocks):
            if index and not _belongs(block, blocks[index - 1]):
                console.print()
            console.print(_drawn(block, console.width, ascii_only=console.options.ascii_only), crop=False)
    return "\n".join(line.rstrip() for line in page.get().rstrip("\n").split("\n")) + "\n"


def _belongs(block: Block, before: Block) -> bool:
    """Whether it follows without an empty line: under a heading or verdict, or as one of several notes."""
    return isinstance(before, Heading | Verdict) or (isinstance(block, Note) and isinstance(before, Note))


def _drawn(block: Block, width: int, *, ascii_only: bool) -> RenderableType:
    match block:
        case Heading() | Note() | Verdict() | Code():
            return _text(block)
        case Facts(pairs):
            return _facts(pairs)
        case Table():
            return _table(block, width)
        case Bar():
            return _bar(block, width, 1 if ascii_only else 0)
        case Tree(root):
            return _tree(root)


def _text(block: Heading | Note | Verdict | Code) -> RenderableType:
    match block:
        case Heading(text):
            return Text(text, "bold")
        case Verdict(text, good):
            return Text(text, "bold green" if good else "bold red")
        case Code(text, _):
            return Group(
                Text(text.rstrip("\n"), no_wrap=True, overflow="ignore")
            )  # outside a Group, rich wraps it all the same
        case Note(text):
            return Text(text)


def _facts(pairs: Sequence[tuple[str, str]]) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", overflow="fold")
    grid.add_column(overflow="fold", min_width=NARROWEST)
    for pair in pairs:
        grid.add_row(*pair)
    return grid


def _table(table: Table, width: int) -> RenderableType:
    """The columns that there is room for, and a line that names those left out. No number is cut."""
    rows = [tuple(" ".join(cell.split()) for cell in row) for row in table.rows]
    cells = [(column.name, *(row[index] for row in rows)) for index, column in enumerate(table.columns)]
    chosen, widths = columns.fitted(table.columns, cells, width)
    grid = Grid(box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), border_style="dim")
    drawn = []
    for index, wide in zip(chosen, widths, strict=True):
        name, *texts = (columns.wrapped(text, wide) for text in cells[index])
        grid.add_column(name, justify="right" if table.columns[index].right else "left", width=wide, no_wrap=True)
        drawn.append(texts)
    if any("\n" in text for texts in drawn for text in texts):
        for row in zip(*drawn, strict=True):
            grid.add_row(*row)
    else:  # drawing whole columns takes a quarter of the time
        grid.add_row(*map("\n".join, drawn))
    left_out = [column.name for index, column in enumerate(table.columns) if index not in chosen]
    if not left_out:
        return grid
    least = ", the least that a page has," if width == NARROWEST_PAGE else ""
    return Group(grid, Text(f"No room in {width} columns{least} for: {', '.join(left_out)}.", "dim"))


def _bar(bar: Bar, width: int, kind: int) -> Group:
    """The parts in proportion, each at least one cell wide, and a legend."""
    from rich.columns import Columns

    drawn, legend = Text(), []
    for (name, size, words), (*cells, colour) in zip(bar.parts, SHADES, strict=False):
        wide = min(width - len(drawn), max(1, round(width * size / bar.whole))) if size > 0 else 0
        drawn.append(cells[kind] * wide, colour)
        legend.append(Text.assemble((cells[kind], colour), f" {name} {words}"))
    return Group(drawn, Columns(legend, padding=(0, 3)))


def _tree(node: Explained) -> Branch:
    from rich.tree import Tree as Branch

    branch = Branch(Group(Text(f"{node.name}: {amount(node.value, node.unit)}", "bold"), *_details(node)))
    branch.guide_style = "dim"
    branch.children = [_tree(child) for child in node.children]
    return branch


def _details(node: Explained) -> Iterator[Text]:
    known = inputs(node)
    for word, text in (("=", node.formula), ("with", known), ("from", node.source)):
        if text:
            yield Text(f"{word} {text}", "dim")
