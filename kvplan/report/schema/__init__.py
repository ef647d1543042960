"""The JSON that kvplan prints, as dataclasses: its stable interface. All other output is made from it.

Bytes, tokens and counts are integers, times are seconds. Unknown is null, never absent. Keys may be added, never
renamed or removed within a schema number.

There is a module for each command. The documents can be imported from here too; they are loaded when they are first
used, because defining a dataclass takes half a millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeAlias

    from kvplan.report.schema.check import CheckReport as CheckReport
    from kvplan.report.schema.compare import CompareReport as CompareReport
    from kvplan.report.schema.fit import FitReport as FitReport
    from kvplan.report.schema.fit import FitTable as FitTable
    from kvplan.report.schema.lists import EnginesReport as EnginesReport
    from kvplan.report.schema.lists import EnvReport as EnvReport
    from kvplan.report.schema.lists import GpusReport as GpusReport
    from kvplan.report.schema.lists import ModelsReport as ModelsReport
    from kvplan.report.schema.size import SizeReport as SizeReport
    from kvplan.report.schema.verify import VerifyReport as VerifyReport

    Document: TypeAlias = (
        SizeReport
        | FitReport
        | FitTable
        | CompareReport
        | ModelsReport
        | GpusReport
        | EnginesReport
        | EnvReport
        | VerifyReport
        | CheckReport
    )

DOCUMENTS = {
    "size": ("size", "SizeReport"),
    "fit": ("fit", "FitReport"),
    "fit_table": ("fit", "FitTable"),
    "compare": ("compare", "CompareReport"),
    "models": ("lists", "ModelsReport"),
    "gpus": ("lists", "GpusReport"),
    "engines": ("lists", "EnginesReport"),
    "env": ("lists", "EnvReport"),
    "verify": ("verify", "VerifyReport"),
    "check": ("check", "CheckReport"),
}
"""The module and class of each document, by the name in its `schema` key."""


def schema_id(name: str) -> str:
    """The `schema` key of the document of that name: `kvplan.size/1`."""
    return f"kvplan.{name}/1"


def document_of(name: str) -> Any:
    """The class of a document, by the name in its `schema` key.

    Raises: KeyError.
    """
    from importlib import import_module

    home, kind = DOCUMENTS[name]
    return getattr(import_module(f"{__name__}.{home}"), kind)


def __getattr__(kind: str) -> Any:
    name = next((name for name, (_, known) in DOCUMENTS.items() if known == kind), None)
    if name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {kind!r}")
    return document_of(name)
