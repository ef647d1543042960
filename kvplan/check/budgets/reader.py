"""A budget file as deployments: read strictly, laid over its defaults and templates, multiplied by its matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from kvplan.check.budgets.budget import Deployment, Fault, Reading
from kvplan.check.budgets.build import deployment
from kvplan.check.budgets.flags import release_of, takes_commands
from kvplan.check.budgets.matrix import combinations
from kvplan.check.budgets.merge import Layer, Source, flat, merged
from kvplan.check.budgets.messages import BudgetFault, fault, faults
from kvplan.errors import BadFile, Problem
from kvplan.manifests import Command, Given, Served
from kvplan.manifests import read as read_served
from kvplan.manifests.keys import DRAFTING, OVERRIDDEN
from kvplan.manifests.places import Key, Place, Placed, as_written
from kvplan.manifests.tree import Tree, beside

if TYPE_CHECKING:
    from kvplan.check.budgets.fields import BudgetFile, DeploymentFields, Plannable

MOST = 20_000
"""Deployments of one file, matrices multiplied out."""


def parse_budget(text: str, name: str, tree: Tree) -> Reading:
    """The deployments of a budget's text. Files that it names are looked for in `tree`, beside `name`.

    Raises: BadFile; BudgetFault (a BadFile) with file and line.
    """
    budget, source = _validated(text, name)
    reader = _Reader(budget, source, tree)
    found: list[Deployment] = []
    wrong: dict[tuple[Place, Problem], Fault] = {}  # what is wrong with a template is told once
    for key, fields in budget.deployments.items():
        try:
            found += islice(reader.deployments(key, fields), MOST + 1)
        except BudgetFault as error:
            for told in error.faults:
                wrong.setdefault(told[:2], told._replace(deployment=key))
        if len(found) > MOST:
            raise fault(found[-1].place, f"{name} makes more than {MOST:,} deployments")
    return Reading(tuple(found), models=reader.models, faults=tuple(wrong.values()))


def _validated(text: str, name: str) -> tuple[BudgetFile, Source]:
    from pydantic import ValidationError

    from kvplan.check.budgets.fields import KEY, BudgetFile
    from kvplan.sources.strict import parse_yaml_mapping

    if not text.strip():
        raise BadFile(f"{name} is empty", hint=f"a budget starts with `{KEY}: 1`; docs/check.md shows one")
    tree, lines = parse_yaml_mapping(text, name, f"{KEY}: 1")
    source = Source(name, lines)
    try:
        return BudgetFile.model_validate(tree), source
    except ValidationError as error:
        raise faults(error, BudgetFile, source) from None


@dataclass(frozen=True, slots=True)
class _Reader:
    """served: what files that commands were looked for in have."""

    budget: BudgetFile
    source: Source
    tree: Tree
    served: dict[str, Served] = field(default_factory=dict)

    def deployments(self, name: str, fields: DeploymentFields) -> Iterator[Deployment]:
        """One deployment of the file, or those of its matrix.

        Raises: BudgetFault.
        """
        path = ("deployments", name)
        place = self.source.place(path)
        defaults = flat(self.budget.defaults, ("defaults",), self.source) if self.budget.defaults else {}
        under = [defaults, *self.templates(fields, path, ())]
        own = flat(fields, path, self.source, own=True)
        command = self.command({**merged([*under, own])})
        if command is not None:
            under.append(self.renamed(command))
        for point in combinations(fields, path, self.source):
            layer = merged([*under, own, point.layer])
            engine = layer.get(("engine",))
            asked = release_of(str(engine.value)) if engine is not None else None
            remarks = command.remarks_on(asked) if command is not None else ()
            yield deployment(name + point.label, place, _without_foreign(layer), self.tree, remarks)

    def templates(self, fields: Plannable, path: tuple[str, ...], above: tuple[str, ...]) -> Iterator[Layer]:
        """Layers of what is extended, the farthest first."""
        for index, name in enumerate(fields.extends or ()):
            place = self.source.place((*path, "extends", index))
            template = (self.budget.templates or {}).get(name)
            if template is None:
                known = ", ".join(self.budget.templates or ()) or "none"
                raise fault(place, f"there is no template {name!r}", hint=f"templates of this file: {known}")
            if name in above:
                raise fault(place, f"templates extend each other in a circle: {' -> '.join((*above, name))}")
            here = ("templates", name)
            yield from self.templates(template, here, (*above, name))
            yield flat(template, here, self.source)

    def command(self, layer: Mapping[Key, Placed]) -> Command | None:
        """The serve command that `from` names.

        Raises: BudgetFault where there is none, or not exactly one.
        """
        placed = layer.get(("from",))
        if placed is None:
            return None
        file, _, wanted = str(placed.value).partition("#")
        name = beside(self.source.name, file)
        if name not in self.served:
            try:
                self.served[name] = read_served(name, self.tree)
            except BadFile as error:
                problem = error.problem
                raise fault(placed.place, problem.what, cause=problem.cause, hint=problem.hint) from None
        return _only(self.served[name], wanted, placed.place, file)

    def renamed(self, command: Command) -> Layer:
        """Its layer, the model looked up in `models`."""
        return aliased(command.layer, self.models)

    @property
    def models(self) -> dict[str, tuple[str, Place]]:
        """What names in serve commands stand for, and where that is said."""
        given = self.budget.models or {}
        return {name: (source, self.source.place(("models", name))) for name, source in given.items()}


def aliased(layer: Layer, models: Mapping[str, tuple[str, Place]]) -> Layer:
    """The layer with its model, and the one that drafts for it, looked up: by the path here, or by what the command calls it."""
    named = {key: layer[key] for key in (("model",), ("draft",)) if key in layer}
    found = {key: models.get(as_written(placed)) or models.get(str(placed.value)) for key, placed in named.items()}
    return {**layer, **{key: Placed(*said) for key, said in found.items() if said is not None}}


def _only(served: Served, wanted: str, place: Place, file: str) -> Command:
    partly = [replace(unread.command, name=unread.what) for unread in served.unread if unread.command is not None]
    every = [*served.commands, *partly] if wanted or not served.commands else served.commands
    found = [command for command in every if not wanted or command.name == wanted]
    if len(found) == 1:
        return found[0]
    names = ", ".join(command.name for command in every)
    if len(found) > 1:
        raise fault(place, f"{file} has several serve commands", hint=f"pick one with {file}#NAME: {names}")
    why = "; ".join(f"{unread.place}: {unread.why}" for unread in served.unread) or None
    if names:
        raise fault(place, f"{file} has no serve command called {wanted!r}", cause=why, hint=f"it has {names}")
    raise fault(place, f"{file} has no serve command that can be read", cause=why)


def _without_foreign(layer: dict[Key, Placed]) -> dict[Key, Placed]:
    """Without a manifest's flags and drafts, where the budget asks for an engine that doesn't take them."""
    engine = layer.get(("engine",))
    if engine is None or takes_commands(str(engine.value)):
        return layer
    own = {"flags", "draft", DRAFTING, OVERRIDDEN}
    return {key: placed for key, placed in layer.items() if key[0] not in own or not isinstance(placed, Given)}
