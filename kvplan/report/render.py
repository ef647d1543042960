"""From a document to what is printed or written: one name of a format, one function."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.errors import UnknownName
from kvplan.report import schema
from kvplan.report.blocks import Block
from kvplan.report.text import Canvas

FORMATS = ("table", "json", "markdown", "csv")
ENDINGS = {".txt": "table", ".json": "json", ".md": "markdown", ".csv": "csv"}


def render(document: schema.Document, name: str, canvas: Canvas, *, explain: bool = False) -> str:
    """The document in a format, ending with a newline.

    Raises: UnknownName.
    """
    from kvplan.report import data

    match name:
        case "json":
            return data.as_json(document)
        case "csv":
            return data.as_csv(document)
        case "markdown":
            from kvplan.report import markdown

            return markdown.draw(view(document, explain=explain))
        case "table":
            from kvplan.report import text

            return text.draw(view(document, explain=explain), canvas)
    raise UnknownName(f"{name!r} is not an output format", hint="known: " + ", ".join(FORMATS))


def view(document: schema.Document, *, explain: bool = False) -> tuple[Block, ...]:
    """The document as blocks."""
    from kvplan.report.views import fit, lists, size

    if isinstance(document, schema.SizeReport):
        return size.view(document, explain=explain)
    if isinstance(document, schema.FitReport):
        return fit.view(document, explain=explain)
    draw: dict[type, Callable[..., tuple[Block, ...]]] = {
        schema.FitTable: fit.table_view,
        schema.CompareReport: lists.compare,
        schema.ModelsReport: lists.models,
        schema.GpusReport: lists.gpus,
        schema.EnginesReport: lists.engines,
        schema.EnvReport: lists.env,
    }
    return draw[type(document)](document)
