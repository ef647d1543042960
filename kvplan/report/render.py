"""Renders a document in a format: one function per format."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kvplan.errors import UnknownName

if TYPE_CHECKING:
    from kvplan.report.blocks import Block
    from kvplan.report.canvas import Canvas
    from kvplan.report.schema import Document

FORMATS = ("table", "json", "markdown", "csv")
ENDINGS = {".txt": "table", ".json": "json", ".md": "markdown", ".csv": "csv"}


def render(document: Document, name: str, canvas: Canvas, *, explain: bool = False) -> str:
    """The document in the format `name`, ending with a newline. explain: with its tree of terms.

    Raises: UnknownName.
    """
    match name:
        case "json":
            from kvplan.report import data

            return data.as_json(document)
        case "csv":
            from kvplan.report import data

            return data.as_csv(document)
        case "markdown":
            from kvplan.report import markdown

            return markdown.draw(view(document, explain=explain))
        case "table":
            from kvplan.report import text

            return text.draw(view(document, explain=explain), canvas)
    raise UnknownName(f"{name!r} is not an output format", hint="known: " + ", ".join(FORMATS))


def view(document: Document, *, explain: bool = False) -> tuple[Block, ...]:
    """The document as blocks, by the module of kvplan.report.views with its name. explain: with its tree of terms."""
    name = document.schema.removeprefix("kvplan.").partition("/")[0]
    blocks: tuple[Block, ...] = import_module(f"kvplan.report.views.{name}").view(document)
    tree = getattr(document, "explain", None) if explain else None
    if tree is None:
        return blocks
    from kvplan.report.blocks import Heading, Tree

    return (*blocks, Heading("Where it comes from"), Tree(tree))
