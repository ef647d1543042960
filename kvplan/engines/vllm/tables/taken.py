"""The class that a release takes for a model, of those that its config may mean."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.registered import CLASSES
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import Version


def taken(model: Model, release: Version) -> str | None:
    """The first that the release registers; None where it registers none, and runs the library's code or nothing."""
    return first_registered(classes(model), release)


def first_registered(names: tuple[str, ...], release: Version) -> str | None:
    """The name that the release takes of several, if it has one."""
    return next((name for name in names if holds(CLASSES.get(name, ""), release)), None)


def has(name: str | None, table: Mapping[str, str], release: Version) -> bool:
    """Whether a class stands in a table of releases for this one; none does not."""
    return name is not None and holds(table.get(name, ""), release)
