"""Where values were given: on the command line, in the environment or in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from click.core import ParameterSource

from kvplan.cli import options as o

if TYPE_CHECKING:
    import click

    from kvplan.cli.option import Option
    from kvplan.report.schema.common import Setting

PLACES = "kvplan.places"
"""Key of a context's meta for the file of each setting."""

OF_THE_PAGE = frozenset(row.name for row in (*o.PRINTING, o.EXPLAIN))
"""Settings that change only how an answer looks."""

PAIRS = ((o.SAFE, o.LIKELY), (o.ENABLE_PREFIX_CACHING, o.NO_PREFIX_CACHING))
OPPOSITES = {row: other for pair in PAIRS for row, other in (pair, pair[::-1])}
"""Switches, each with the one that undoes it."""


def place(row: Option[Any], ctx: click.Context | None) -> str:
    """The place of a value: `--tp`, `KVPLAN_TP` or `kvplan.toml: tp`."""
    source = None if ctx is None else ctx.get_parameter_source(row.name)
    if source == ParameterSource.ENVIRONMENT:
        return row.variable
    files: dict[str, str] = {} if ctx is None else ctx.meta.get(PLACES, {})
    file = files.get(row.name) if source == ParameterSource.DEFAULT_MAP else None
    return row.flag if file is None else f"{file}: {row.name}"


def elsewhere(rows: Iterable[Option[Any]], ctx: click.Context) -> tuple[Setting, ...]:
    """Settings from the environment and files that bear on the answer."""
    return tuple(
        _setting(row, ctx)
        for row in rows
        if row.name not in OF_THE_PAGE
        and ctx.get_parameter_source(row.name) in {ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT_MAP}
        and not _undone(row, ctx)
    )


def _undone(row: Option[Any], ctx: click.Context) -> bool:
    against = OPPOSITES.get(row)
    return against is not None and ctx.get_parameter_source(against.name) == ParameterSource.COMMANDLINE


def _setting(row: Option[Any], ctx: click.Context) -> Setting:
    from kvplan.report.schema.common import Setting

    if ctx.get_parameter_source(row.name) == ParameterSource.ENVIRONMENT:
        return Setting(row.name, os.environ[row.variable], row.variable)
    return Setting(row.name, spelled((ctx.default_map or {})[row.name]), ctx.meta[PLACES][row.name])


def spelled(value: object) -> str:
    """A value of a TOML file as it is typed on the command line."""
    if isinstance(value, list):
        return ",".join(map(spelled, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
