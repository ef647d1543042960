"""The command `kvplan models`."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Values


def run(values: Values) -> Answer:
    """List the bundled models, or show how the named ones are understood."""
    from kvplan import api

    return Answer(api.models(values.arguments, offline=values.on(o.OFFLINE)))


COMMAND = Command(
    name="models",
    about=MODULES["models"],
    run=run,
    examples=("kvplan models", "kvplan models deepseek-v3", "kvplan models --format csv"),
    arguments=(
        Argument("MODEL", "bundled names, Hub ids, paths; none: all bundled ones", most=None, completes="models"),
    ),
    options=(o.OFFLINE, *o.PRINTING),
)
