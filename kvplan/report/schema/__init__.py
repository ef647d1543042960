"""The JSON that kvplan prints, as dataclasses: the one stable interface. Everything a person sees is drawn from it.

Bytes, tokens and counts are integers, times are seconds. Unknown is null, never absent. Keys may be added, never
renamed or removed within a schema number.

A module for each command; names are loaded when they are used, because making a dataclass takes half a millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.report.schema.check import CheckReport as CheckReport
    from kvplan.report.schema.common import Defaulted as Defaulted
    from kvplan.report.schema.common import EngineInfo as EngineInfo
    from kvplan.report.schema.common import Explained as Explained
    from kvplan.report.schema.common import KvDtype as KvDtype
    from kvplan.report.schema.common import Layout as Layout
    from kvplan.report.schema.common import ModelInfo as ModelInfo
    from kvplan.report.schema.common import Parameters as Parameters
    from kvplan.report.schema.common import WeightReads as WeightReads
    from kvplan.report.schema.common import WeightsInfo as WeightsInfo
    from kvplan.report.schema.compare import Compared as Compared
    from kvplan.report.schema.compare import CompareReport as CompareReport
    from kvplan.report.schema.fit import Change as Change
    from kvplan.report.schema.fit import DecodeInfo as DecodeInfo
    from kvplan.report.schema.fit import Extra as Extra
    from kvplan.report.schema.fit import FitReport as FitReport
    from kvplan.report.schema.fit import FitTable as FitTable
    from kvplan.report.schema.fit import GpuInfo as GpuInfo
    from kvplan.report.schema.fit import IdealCapacity as IdealCapacity
    from kvplan.report.schema.fit import Memory as Memory
    from kvplan.report.schema.fit import PerGpu as PerGpu
    from kvplan.report.schema.fit import Reason as Reason
    from kvplan.report.schema.fit import Reserved as Reserved
    from kvplan.report.schema.fit import Skipped as Skipped
    from kvplan.report.schema.lists import EnginesReport as EnginesReport
    from kvplan.report.schema.lists import EnvReport as EnvReport
    from kvplan.report.schema.lists import GpusReport as GpusReport
    from kvplan.report.schema.lists import KnownFact as KnownFact
    from kvplan.report.schema.lists import ListedEngine as ListedEngine
    from kvplan.report.schema.lists import ListedGpu as ListedGpu
    from kvplan.report.schema.lists import ListedModel as ListedModel
    from kvplan.report.schema.lists import ListedRule as ListedRule
    from kvplan.report.schema.lists import ModelsReport as ModelsReport
    from kvplan.report.schema.lists import Setting as Setting
    from kvplan.report.schema.size import CacheInfo as CacheInfo
    from kvplan.report.schema.size import Group as Group
    from kvplan.report.schema.size import Rung as Rung
    from kvplan.report.schema.size import SameShape as SameShape
    from kvplan.report.schema.size import Sequence as Sequence
    from kvplan.report.schema.size import SizeReport as SizeReport
    from kvplan.report.schema.size import Work as Work
    from kvplan.report.schema.verify import Built as Built
    from kvplan.report.schema.verify import Checked as Checked
    from kvplan.report.schema.verify import Measured as Measured
    from kvplan.report.schema.verify import Place as Place
    from kvplan.report.schema.verify import Timed as Timed
    from kvplan.report.schema.verify import VerifyReport as VerifyReport

    Document = (
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

HOMES = {
    "common": (
        "Defaulted",
        "Parameters",
        "WeightsInfo",
        "WeightReads",
        "ModelInfo",
        "KvDtype",
        "Layout",
        "EngineInfo",
        "Explained",
    ),
    "size": ("Group", "CacheInfo", "Sequence", "Rung", "SameShape", "Work", "SizeReport"),
    "fit": (
        "GpuInfo",
        "Memory",
        "PerGpu",
        "IdealCapacity",
        "Reason",
        "Reserved",
        "DecodeInfo",
        "Change",
        "Extra",
        "FitReport",
        "Skipped",
        "FitTable",
    ),
    "compare": ("Compared", "CompareReport"),
    "lists": (
        "ListedModel",
        "ModelsReport",
        "KnownFact",
        "ListedGpu",
        "GpusReport",
        "ListedRule",
        "ListedEngine",
        "EnginesReport",
        "Setting",
        "EnvReport",
    ),
    "verify": ("Built", "Place", "Checked", "Timed", "Measured", "VerifyReport"),
    "check": ("CheckReport",),
}

DOCUMENTS = {
    "size": "SizeReport",
    "fit": "FitReport",
    "fit_table": "FitTable",
    "compare": "CompareReport",
    "models": "ModelsReport",
    "gpus": "GpusReport",
    "engines": "EnginesReport",
    "env": "EnvReport",
    "verify": "VerifyReport",
    "check": "CheckReport",
}
"""The class of each document, by the name in its `schema` key."""


def schema_id(name: str) -> str:
    """`kvplan.size/1`."""
    return f"kvplan.{name}/1"


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for home, names in HOMES.items():
        if name in names:
            found = getattr(import_module(f"kvplan.report.schema.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
