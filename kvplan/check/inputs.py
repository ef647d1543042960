"""What was asked to be checked: which files, and for each whether it is a budget or something with serve commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kvplan.check import serving
from kvplan.check.budget import Deployment, End, Place, Reading, Starts, Unread
from kvplan.check.build import deployment
from kvplan.check.merge import Key, Placed, merged
from kvplan.check.messages import BudgetFault
from kvplan.check.reader import aliased, parse_budget
from kvplan.check.serving import STDIN
from kvplan.check.tree import MAX_BYTES, Tree, read_text
from kvplan.errors import BadFile, UsageError

BUDGETS = ("kvplan-budget.yaml", "kvplan-budget.yml")
"""Names that are looked for when none is given."""

_BUDGET = re.compile(r"^[\"']?kvplan-budget[\"']?\s*:", re.MULTILINE)
_SERVING = (".yaml", ".yml", ".sh")
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv"})
MOST_FILES = 5000


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line gives to serve commands that don't say it themselves: an accelerator, an engine's version.

    starts: the end that decides whether they start.
    """

    gpu: str | None = None
    engine: str | None = None
    starts: End = "safe"

    @property
    def layer(self) -> Mapping[Key, Placed]:
        """The same as a layer under a command's own."""
        given = {"gpu": self.gpu, "engine": self.engine}
        return {(key,): Placed(value, Place(f"--{key}", 1)) for key, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Input:
    """One file: what it gave, and whether it is a budget. commands: serve commands, not yet deployments."""

    name: str
    budget: bool
    reading: Reading
    commands: tuple[serving.Command, ...] = ()


def default_files() -> tuple[str, ...]:
    """The budget of the current folder.

    Raises: UsageError if there is none.
    """
    found = tuple(name for name in BUDGETS if Path(name).is_file())
    if not found:
        raise UsageError(
            f"there is no {BUDGETS[0]} here",
            hint="name a budget, a manifest or a folder of them: kvplan check deploy.yaml --gpu h100",
        )
    return found[:1]


def read_inputs(names: tuple[str, ...], tree: Tree, asked: Asked) -> tuple[Input, ...]:
    """Every file that was named, and those with serve commands in every folder that was.

    Raises: BadFile for a named file that can't be read; BudgetFault for a budget.
    """
    found: list[Input] = []
    for name in dict.fromkeys(names):
        if name != STDIN and tree.path(name).is_dir():
            found += _folder(name, tree)
        else:
            found.append(_file(name, tree))
    models = {alias: source for given in found for alias, source in given.reading.models.items()}
    return tuple(_built(given, tree, asked, models) for given in found)


def _folder(name: str, tree: Tree) -> Iterator[Input]:
    """Files of a folder that may serve something; one that isn't what its name says is listed, not an error."""
    for path in _walk(tree.path(name)):
        file = (Path(name) / path.relative_to(tree.path(name))).as_posix()
        try:
            read = _file(file, tree, alone=False)
        except BudgetFault:
            raise
        except BadFile as error:
            problem = error.problem
            why = f"{problem.what}: {problem.cause}" if problem.cause else problem.what
            read = Input(file, budget=False, reading=Reading(unread=(Unread(file, why, Place(file, 1)),)))
        yield read


def _walk(folder: Path) -> Iterator[Path]:
    count = 0
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part in _SKIPPED for part in inside)
        if path.suffix.lower() in _SERVING and not hidden and path.is_file():
            count += 1
            if count > MOST_FILES:
                raise UsageError(
                    f"{folder} has more than {MOST_FILES:,} files", hint="name the folder with the manifests"
                )
            yield path


def _file(name: str, tree: Tree, *, alone: bool = True) -> Input:
    text = _stdin() if name == STDIN else read_text(tree, name)
    if Path(name).name in BUDGETS or (_BUDGET.search(text) and name.endswith((".yaml", ".yml"))):
        return Input(name, budget=True, reading=parse_budget(text, name, tree))
    if not alone and "vllm" not in text:
        return Input(name, budget=False, reading=Reading())
    served = serving.parse(text, name, tree)
    unread = served.unread
    if not served.commands and not unread and alone:
        unread = (Unread(name, "it has no serve command of vLLM", Place(name, 1)),)
    return Input(name, budget=False, reading=Reading(unread=unread), commands=served.commands)


def _built(given: Input, tree: Tree, asked: Asked, models: Mapping[str, tuple[str, Place]]) -> Input:
    """The input with its serve commands as deployments, models looked up in what the budgets of this run say."""
    deployments: list[Deployment] = []
    unread: list[Unread] = []
    for command in given.commands:
        try:
            layer = merged([asked.layer, aliased(command.layer, models)])
            built = deployment(command.name, command.place, layer, tree, command.remarks)
            deployments.append(replace(built, starts=Starts(asked.starts)))
        except BudgetFault as error:
            unread.append(_unplannable(command, error))
    reading = given.reading
    return replace(
        given,
        reading=replace(
            reading,
            deployments=(*reading.deployments, *deployments),
            unread=(*reading.unread, *unread),
        ),
    )


def _unplannable(command: serving.Command, error: BudgetFault) -> Unread:
    """A command that was read and lacks something, or holds what nobody can plan."""
    place, problem = error.faults[0]
    if ("gpu",) not in command.layer and "names no gpu" in problem.what:
        return Unread(command.name, "nothing says which GPU it runs on: give --gpu", command.place, found=True)
    why = f"{problem.what}: {problem.cause}" if problem.cause else problem.what
    return Unread(command.name, why, place, found=True)


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing is piped into standard input", hint="helm template CHART | kvplan check - --gpu h100")
    raw = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise BadFile("standard input is too large to be a manifest")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("standard input is not UTF-8 text") from None
