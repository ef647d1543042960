"""The page of `kvplan env`."""

from __future__ import annotations

from kvplan.report.blocks import Block, Column, Facts, Table
from kvplan.report.schema import lists as schema


def view(report: schema.EnvReport) -> tuple[Block, ...]:
    """What a bug report needs."""
    facts = [("kvplan", report.kvplan), ("python", report.python), ("platform", report.platform)]
    facts += [(name, version or "not installed") for name, version in report.packages.items()]
    facts.append(("bundled models", _count(report.bundled_models)))
    facts.append(("bundled GPUs", _count(report.bundled_gpus)))
    facts.append(("NVIDIA driver", report.driver))
    facts.append(("GPUs here", ", ".join(report.gpus_here) or "none found"))
    settings = tuple((setting.name, setting.value, setting.source) for setting in report.settings)
    if not settings:
        return (Facts(tuple(facts)),)
    columns = (
        Column("setting", right=False),
        Column("value", right=False, shrink=True),
        Column("from", right=False, shrink=True),
    )
    return (Facts(tuple(facts)), Table(columns, settings))


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number}"
