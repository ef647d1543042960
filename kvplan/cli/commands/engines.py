"""The command `kvplan engines`."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Values


def run(_values: Values) -> Answer:
    """List the engines and their rules."""
    from kvplan import api

    return Answer(api.engines())


COMMAND = Command(name="engines", about=MODULES["engines"], run=run, examples=("kvplan engines",), options=o.PRINTING)
