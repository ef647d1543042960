"""Which files to check, and for each whether it is a budget or a file with serve commands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kvplan import manifests
from kvplan.check.budgets.budget import Deployment, Fault, Reading, Starts
from kvplan.check.budgets.build import deployment
from kvplan.check.budgets.flags import release_of
from kvplan.check.budgets.merge import Layer, merged
from kvplan.check.budgets.messages import BudgetFault
from kvplan.check.budgets.reader import aliased, parse_budget
from kvplan.errors import BadFile, UsageError
from kvplan.manifests import STDIN, is_dockerfile
from kvplan.manifests.places import Key, Place, Placed, Remark, Unread
from kvplan.manifests.tree import MAX_BYTES, TooLarge, Tree, read_text
from kvplan.manifests.unseen import MOUNTED
from kvplan.report.schema.check import End

BUDGETS = ("kvplan-budget.yaml", "kvplan-budget.yml")
"""Names that are looked for when none is given."""

_BUDGET = re.compile(r"^[\"']?kvplan-budget[\"']?\s*:", re.MULTILINE)
_SERVING = (".yaml", ".yml", ".sh", ".service")
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
    """One file: what it gave, and whether it is a budget.

    commands: serve commands, not yet deployments. faults: why it can't be read.
    """

    name: str
    budget: bool
    reading: Reading
    commands: tuple[manifests.Command, ...] = ()
    faults: tuple[Fault, ...] = ()


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


def read_inputs(names: tuple[str, ...], tree: Tree, asked: Asked, *, allow_nothing: bool = False) -> tuple[Input, ...]:
    """Every file that was named, and those with serve commands in every folder that was.

    allow_nothing: whether a named file may have nothing to do with serving, as any file of a folder may.

    Raises: BadFile for a named file that can't be opened. What is wrong in a file is among its faults.
    """
    found: list[Input] = []
    read: set[str] = set()
    for name in names:
        folder = name != STDIN and tree.path(name).is_dir()
        for file in _walk(name, tree.path(name)) if folder else (name,):
            if os.path.normpath(file) not in read:
                read.add(os.path.normpath(file))
                found.append(_file(file, tree, alone=not folder and not allow_nothing))
    models = {alias: source for given in found for alias, source in given.reading.models.items()}
    return tuple(_built(given, tree, asked, models) for given in found)


def _walk(name: str, folder: Path) -> Iterator[str]:
    """Files of a folder that may serve something."""
    count = 0
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") or part in _SKIPPED for part in inside.parts)
        wanted = path.suffix.lower() in _SERVING or is_dockerfile(path.name)
        if wanted and not hidden and path.is_file():
            count += 1
            if count > MOST_FILES:
                raise UsageError(
                    f"{folder} has more than {MOST_FILES:,} files", hint="name the folder with the manifests"
                )
            yield (Path(name) / inside).as_posix()


def _file(name: str, tree: Tree, *, alone: bool) -> Input:
    """alone: whether a person named it, and so expects something in it."""
    try:
        text = _stdin() if name == STDIN else read_text(tree, name)
    except BadFile as error:
        if alone and not isinstance(error, TooLarge):
            raise
        return _told(name, error) if alone else _listed(name, error)
    budget = Path(name).name in BUDGETS or bool(_BUDGET.search(text) and name.endswith((".yaml", ".yml")))
    if not alone and not budget and "vllm" not in text.lower():
        return Input(name, budget=False, reading=Reading())
    try:
        return _parsed(text, name, tree, budget=budget, alone=alone)
    except BudgetFault as error:
        return Input(name, budget=budget, reading=Reading(), faults=error.faults)
    except BadFile as error:
        if not alone and not budget:
            return _listed(name, error)
        return Input(name, budget=budget, reading=Reading(), faults=(Fault(_place(name, error), error.problem),))


def _parsed(text: str, name: str, tree: Tree, *, budget: bool, alone: bool) -> Input:
    if budget:
        reading = parse_budget(text, name, tree)
        return Input(name, budget=True, reading=reading, faults=reading.faults)
    served = manifests.parse(text, name, tree)
    unread = served.unread
    if not served.commands and not unread and alone:
        what = "standard input" if name == STDIN else name
        unread = (Unread(what, _why_nothing(text, name), Place(name, 1)),)
    return Input(name, budget=False, reading=Reading(unread=unread), commands=served.commands)


def _why_nothing(text: str, name: str) -> str:
    """Why a file that a person named has no serve command, and what to do about it."""
    if _BUDGET.search(text):
        return _BUDGETS_NAME if name != STDIN else _BUDGETS_PLACE
    if set(_KIND.findall(text)) == {"ConfigMap"} and _HOLDS.search(text):
        return MOUNTED
    how = "by a command that kvplan doesn't know" if manifests.is_shells(name, text) else _FOREIGN
    return f"it seems to start vLLM, {how}" if manifests.mentions(_COMMENT.sub("", text)) else _NOTHING


_KIND = re.compile(r"^[\"']?kind[\"']?\s*:\s*[\"']?(\w+)", re.MULTILINE)
_HOLDS = re.compile(r"\bvllm\s+serve\b|\bvllm\.entrypoints\b|^[ \t]+model:", re.MULTILINE)
"""A command of vLLM's, or a --config file, in a text that isn't one."""
_BUDGETS_NAME = (
    "it is a budget, which kvplan knows by its name: call it kvplan-budget.yaml, or anything that ends in .yaml"
)
_BUDGETS_PLACE = (
    "it is a budget, whose lock and files lie beside it, so that a pipe can't bring it: kvplan check kvplan-budget.yaml"
)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_FOREIGN = "in a language that kvplan doesn't read"
_NOTHING = "it has no serve command of vLLM"


def _told(name: str, error: BadFile) -> Input:
    """A named file that can't be read, which is a finding and keeps no other from being checked."""
    return Input(name, budget=False, reading=Reading(), faults=(Fault(Place(name, 1), error.problem),))


def _listed(name: str, error: BadFile) -> Input:
    """A file that isn't what its name says, which is nobody's error where nobody named it."""
    problem = error.problem
    why = f"{problem.what}: {problem.cause}" if problem.cause else problem.what
    return Input(name, budget=False, reading=Reading(unread=(Unread(name, why, _place(name, error)),)))


_LINE = re.compile(r"\bline (\d+)")


def _place(name: str, error: BadFile) -> Place:
    """The line that an error names."""
    problem = error.problem
    match = _LINE.search(f"{problem.what} {problem.cause or ''}")
    return Place(name, int(match[1]) if match is not None else 1)


def _built(given: Input, tree: Tree, asked: Asked, models: Mapping[str, tuple[str, Place]]) -> Input:
    """The input with its serve commands as deployments, models looked up in what the budgets of this run say."""
    deployments: list[Deployment] = []
    unread: list[Unread] = []
    for command in given.commands:
        try:
            layer = merged([asked.layer, aliased(command.layer, models)])
            if ("model",) in layer and ("gpu",) not in layer:
                why = "nothing says which GPU it runs on: give --gpu"
                unread.append(Unread(command.name, why, command.place, found=True))
                continue
            built = deployment(command.name, command.place, layer, tree, _remarks(command, layer, asked))
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


def _remarks(command: manifests.Command, layer: Layer, asked: Asked) -> tuple[Remark, ...]:
    """The command's remarks; that its image says no version is nothing to say where the command line does."""
    engine = layer.get(("engine",))
    found = command.remarks_on(release_of(str(engine.value)) if engine is not None else None)
    return tuple(remark for remark in found if asked.engine is None or remark.rule != manifests.UNSAID_VERSION)


def _unplannable(command: manifests.Command, error: BudgetFault) -> Unread:
    """A command that was read and lacks something, or holds what nobody can plan."""
    place, problem, _ = error.faults[0]
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
