"""kvplan models."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Values


def run(_values: Values) -> Answer:
    """List the bundled models."""
    from kvplan import api

    return Answer(api.models())


COMMAND = Command(
    name="models",
    about=MODULES["models"],
    run=run,
    examples=("kvplan models", "kvplan models --format csv"),
    options=o.PRINTING,
)
