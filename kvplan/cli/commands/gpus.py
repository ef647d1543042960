"""The command `kvplan gpus`."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Values


def run(values: Values) -> Answer:
    """List the accelerators, or show everything about the named ones."""
    from kvplan import api

    return Answer(api.gpus(values.arguments))


COMMAND = Command(
    name="gpus",
    about=MODULES["gpus"],
    run=run,
    examples=("kvplan gpus", "kvplan gpus h100", "kvplan gpus h100 mi300x --json"),
    arguments=(Argument("GPU", "an id or a name people use; none: all", most=None, completes="gpus"),),
    options=o.PRINTING,
)
