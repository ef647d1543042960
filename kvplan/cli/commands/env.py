"""The command `kvplan env`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kvplan.cli import options as o
from kvplan.cli import settings
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Values
from kvplan.cli.origin import spelled
from kvplan.errors import KvplanError
from kvplan.report.schema.common import Setting

HUB = ("HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN")
SECRET = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
TERMINAL = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "COLUMNS")


def run(_values: Values) -> Answer:
    """Report where kvplan runs and what is set."""
    from kvplan import api

    return Answer(api.env(tuple(_settings())))


def _settings() -> Iterator[Setting]:
    for name, value in sorted(os.environ.items()):
        if name.startswith("KVPLAN_") or name in HUB or name in TERMINAL:
            yield Setting(name, value, "environment")
        elif name in SECRET:
            yield Setting(name, "set, not shown", "environment")
    for find in (settings.project_file, lambda: settings.user_file(os.environ)):
        yield from _file(find)


def _file(find: Callable[[], Path | None]) -> Iterator[Setting]:
    """A settings file: what it sets, or why it can't be read."""
    try:
        path = find()
        if path is not None:
            found = settings.listed(path)
            yield Setting("settings", str(path), "file")
            yield from (Setting(name, spelled(value), str(path)) for name, value in found)
    except KvplanError as error:
        problem = error.problem
        yield Setting("settings", f"broken: {problem.what}{': ' + problem.cause if problem.cause else ''}", "file")


COMMAND = Command(
    name="env",
    about=MODULES["env"],
    run=run,
    examples=("kvplan env", "kvplan env --json"),
    options=o.PRINTING,
    reports_settings=True,
)
