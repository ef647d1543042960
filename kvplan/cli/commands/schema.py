"""The command `kvplan schema`."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Values


def run(values: Values) -> Answer:
    """Print the JSON Schema of one document."""
    from kvplan.report.data import json_schema

    return Answer(text=json_schema(values.arguments[0]))


COMMAND = Command(
    name="schema",
    about=MODULES["schema"],
    run=run,
    examples=("kvplan schema fit",),
    arguments=(
        Argument(
            "NAME",
            "size, fit, fit_table, compare, verify, check, models, gpus, engines or env",
            least=1,
            completes="schemas",
        ),
    ),
    options=(o.DEBUG, o.HELP),
)
