"""Blocks as GitHub-flavoured markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvplan.report.blocks import Bar, Block, Code, Facts, Heading, Note, Table, Tree, Verdict
from kvplan.report.views.words import amount

if TYPE_CHECKING:
    from kvplan.report.schema.common import Explained


def draw(blocks: Sequence[Block]) -> str:
    """The page, ending with a newline."""
    return "\n\n".join("\n".join(_lines(block)) for block in blocks) + "\n"


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"### {escape(text)}"
        case Verdict(text, _):
            yield f"**{escape(text)}**"
        case Facts(pairs):
            yield from (f"- {escape(name)}: {escape(value)}" for name, value in pairs)
        case Table():
            yield "| " + " | ".join(escape(column.name) for column in block.columns) + " |"
            yield "|" + "|".join("--:" if column.right else "---" for column in block.columns) + "|"
            yield from ("| " + " | ".join(map(escape, row)) + " |" for row in block.rows)
        case Bar(parts, _):
            yield "| part | size |"
            yield "|---|--:|"
            yield from (f"| {escape(name)} | {escape(words)} |" for name, _, words in parts)
        case Tree(root):
            yield from _tree(root, 0)
        case Note(text):
            yield escape(text)
        case Code(text, language):
            yield f"```{language}"
            yield from text.rstrip("\n").split("\n")
            yield "```"


def _tree(node: Explained, depth: int) -> Iterator[str]:
    said = f"{'  ' * depth}- **{escape(node.name)}** {amount(node.value, node.unit)}"
    said += f" = `{node.formula}`" if node.formula else ""
    said += f" ({escape(node.source)})" if node.source else ""
    yield said
    for child in node.children:
        yield from _tree(child, depth + 1)


def escape(text: str) -> str:
    """The text without anything that markdown reads as a table, emphasis, link, image, code, mention or address."""
    text = text.replace("&", "&amp;")
    for sign in "\\|*_<>[]`~":
        text = text.replace(sign, "\\" + sign)
    text = text.replace("://", "\\://").replace("www.", "www\\.")
    return re.sub(r"@(?=\w)", "@\u2060", text).replace("\n", " ")
