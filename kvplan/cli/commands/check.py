"""The command `kvplan check`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kvplan.check.results.formats import FORMATS, destinations
from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Option, Values, switch, words
from kvplan.cli.streams import colours
from kvplan.errors import UnknownName, UsageError
from kvplan.report.canvas import Canvas

if TYPE_CHECKING:
    from kvplan.check.job import Job
    from kvplan.check.results.verdict import FailOn


def fail_on(text: str) -> FailOn:
    """The level that fails a check: `error` or `warn`.

    Raises: UnknownName.
    """
    if text == "warn":
        return "warn"
    if text == "error":
        return "error"
    raise UnknownName(f"{text!r} is not a level", hint="known: error, warn")


GPU = o.GPU._replace(help="accelerator, h100, or auto for this machine's", metavar="ID")
"""A GPU without a number, which each deployment states itself."""
LOCK = Option("lock", "one lock for everything, instead of one beside each budget", str, "FILE", completes="files")
UPDATE = Option("update", "write the lock: every number, as it is now", switch, settable=False)
BASE = Option("base", "compare with this git revision instead of the lock: origin/main", str, "REF")
FAIL_ON = Option(
    "fail_on", "what makes exit code 1: error, or warn as well", fail_on, "LEVEL", "error", choices=("error", "warn"),
)  # fmt: skip
EXIT_ZERO = Option("exit_zero", "exit 0 although limits are broken; without an answer it is still 2 or 3", switch)
ALLOW_NOTHING = Option(
    "allow_nothing", "exit 0 when no FILE has anything to check: for hooks that pass whatever changed", switch
)
SCHEMA = Option("schema", "print the JSON Schema of a budget file", switch, settable=False)
FORMAT = Option(
    "format", f"{', '.join(FORMATS)}; several with commas", words, "F,F", "table", choices=FORMATS,
)  # fmt: skip
OUTPUT = Option(
    "output", "write there, in the format of its ending (.json .md .xml .sarif .txt) or FORMAT=FILE; - is stdout; may be repeated",
    str, "FILE", short="o", repeats=True, completes="files", settable=False,
)  # fmt: skip


def run(values: Values) -> Answer:
    """Check budgets and serve commands."""
    if values.on(SCHEMA):
        return Answer(text=_schema())
    from kvplan.check.job import checked
    from kvplan.cli.files import write_all

    page = Canvas(sys.stdout, colours(values))
    done = checked(_job(values), page)
    write_all(done.files)
    return Answer(text=done.screen, exit_code=done.exit_code)


def _job(values: Values) -> Job:
    """The check that the flags ask for.

    Raises: UsageError, UnknownName.
    """
    from kvplan.check.inputs import Asked
    from kvplan.check.job import Job
    from kvplan.check.run import Run
    from kvplan.cli.asked import end

    return Job(
        outputs=destinations(_formats(values), values.all(OUTPUT)),
        run=Run(
            files=values.arguments,
            asked=Asked(values.get(GPU), values.get(o.ENGINE), end(values)),
            lock=values.get(LOCK),
            update=values.on(UPDATE),
            base=values.get(BASE),
            allow_nothing=values.on(ALLOW_NOTHING),
            debug=values.on(o.DEBUG),
        ),
        offline=values.on(o.OFFLINE),
        fail_on=values.get(FAIL_ON) or "error",
        forgive=values.on(EXIT_ZERO),
    )


def _formats(values: Values) -> tuple[str, ...]:
    """The formats named. Of --json and --format the nearer setting wins, as in other commands.

    Raises: UsageError.
    """
    named = () if values.beaten(FORMAT, o.JSON) else values.get(FORMAT) or ()
    if values.on(o.JSON) and not values.beaten(o.JSON, FORMAT):
        if named and named != ("json",):
            raise UsageError("--json and --format can't be combined", hint="leave one of them out")
        return ("json",)
    return named


def _schema() -> str:
    import json

    from kvplan.check.budgets.fields import json_schema

    return json.dumps(json_schema(), indent=2) + "\n"


COMMAND = Command(
    name="check",
    about=MODULES["check"],
    run=run,
    examples=(
        "kvplan check",
        "kvplan check kvplan-budget.yaml --format table,github -o sarif=kvplan.sarif -o junit=kvplan.xml",
        "kvplan check deploy/ --gpu h100",
        "helm template ./chart | kvplan check - --gpu h100 --engine vllm@0.19",
        "kvplan check --update",
        "kvplan check --base origin/main --fail-on warn --format markdown",
    ),
    arguments=(
        Argument(
            "FILE", "budgets, manifests, values, compose files, scripts or folders of them, or -; none: kvplan-budget.yaml",
            most=None, completes="files",
        ),
    ),
    options=(
        GPU, o.ENGINE, o.SAFE, o.LIKELY, LOCK, UPDATE, BASE, FAIL_ON, EXIT_ZERO, ALLOW_NOTHING, o.OFFLINE, SCHEMA, o.JSON, FORMAT,
        OUTPUT, o.COLOUR, o.DEBUG, o.CONFIG, o.NO_CONFIG, o.HELP,
    ),
    more="Exit code 1 means that a limit is broken, 2 that something could not be planned or that nothing was checked. "
    "docs/check.md describes the budget file.",
)  # fmt: skip
