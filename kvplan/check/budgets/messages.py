"""From what pydantic found wrong in a budget to one error: each fault with its line, its key and what would be right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.check.budgets.budget import Fault
from kvplan.errors import BadFile, Problem
from kvplan.manifests.places import Place
from kvplan.sources.strict import path_text
from kvplan.text import meant

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

    from kvplan.check.budgets.merge import Source
    from kvplan.sources.strict import Path

MOST = 20
"""Faults told at once."""

_WANTED = {
    "int_type": "a whole number", "string_type": "text", "float_type": "a number", "bool_type": "true or false",
    "dict_type": "a mapping", "model_type": "a mapping", "list_type": "a list", "model_attributes_type": "a mapping",
}  # fmt: skip


_EMPTY = {"too_short": "at least one", "string_too_short": "a text"}
"""What is missing from what has nothing in it."""
_NEEDED = {"deployments": "name at least one deployment"}
"""What to do about it where it can't be left out."""


class BudgetFault(BadFile):
    """A budget file that can't be read. faults: all of them, each with its place."""

    def __init__(self, faults: list[Fault]) -> None:
        place, first, _ = faults[0]
        others = [f"{at}: {problem.what}" for at, problem, _ in faults[1:MOST]]
        cause = "; ".join(([first.cause] if first.cause else []) + others) or None
        super().__init__(f"{place}: {first.what}", cause=cause, hint=first.hint)
        self.faults = tuple(faults)


def fault(place: Place, what: str, *, cause: str | None = None, hint: str | None = None) -> BudgetFault:
    """One fault."""
    return BudgetFault([Fault(place, Problem(what, cause, hint))])


def faults(error: ValidationError, model: type[BaseModel], source: Source, under: Path = ()) -> BudgetFault:
    """Everything that pydantic found, in the order of the file."""
    found = [
        Fault(
            source.place((*under, *_path(detail["loc"], source, under))),
            _problem(detail, model),
            str(detail["loc"][1])
            if not under and detail["loc"][:1] == ("deployments",) and len(detail["loc"]) > 1
            else None,
        )
        for detail in error.errors(include_url=False)
    ]
    return BudgetFault(sorted(found, key=lambda entry: entry.place.line))


def _path(loc: Path, source: Source, under: Path) -> Path:
    """The steps of `loc` that the file has; others are branches and shorthands that pydantic went through."""
    path: Path = ()
    for step in loc:
        if (*under, *path, step) in source.lines:
            path = (*path, step)
    return path


def _problem(detail: ErrorDetails, model: type[BaseModel]) -> Problem:
    loc = tuple(step for step in detail["loc"] if step != "[key]")
    where = path_text(loc)
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return Problem(f"unknown key {where}", hint=_meant(loc, value, model))
    if kind in _EMPTY:
        return Problem(f"{where} is empty", hint=_NEEDED.get(where, f"give {_EMPTY[kind]} there, or leave it out"))
    if kind == "missing":
        return Problem(f"{where} is missing")
    wanted = detail["ctx"]["expected"] if kind == "literal_error" else _WANTED.get(kind)
    if wanted is not None:
        return Problem(f"{where} is {_shown(value)}, not {wanted}")
    if detail["loc"][-1:] == ("[key]",):
        return Problem(
            f"{where} can't be a name", hint="letters, digits and . _ - / space, starting with a letter or digit"
        )
    said = detail["msg"] if kind == "size" else detail["msg"][:1].lower() + detail["msg"][1:]
    return Problem(f"{where} is {_shown(value)}: {said}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _meant(loc: Path, value: object, model: type[BaseModel]) -> str:
    inside = _inside(model, loc, value)
    if inside is not None:
        return f"did you mean {inside}?"
    keys = list(dict.fromkeys(_keys(model, loc[:-1])))
    return meant(str(loc[-1]), keys, after=" ", cutoff=0.5) + "known here: " + ", ".join(keys)


def _inside(model: type[BaseModel], loc: Path, value: object) -> str | None:
    """`parallel: {tp: 4}` for a `tp: 4` that stands one level too high."""
    from kvplan.check.budgets.flags import VLLM

    for owner in _owners(model, loc[:-1]):
        for name, field in owner.model_fields.items():
            within = [found.model_fields for found in _models(field.annotation)]
            if any(loc[-1] in keys for keys in (*within, VLLM if name == "flags" else ())):
                return f"{field.alias or name}: {{{loc[-1]}: {value}}}"
    return None


def _keys(model: type[BaseModel], loc: Path) -> Iterator[str]:
    """Keys that the model found by walking `loc` has."""
    for owner in _owners(model, loc):
        yield from (field.alias or name for name, field in owner.model_fields.items())


def _owners(model: type[BaseModel], loc: Path) -> list[type[BaseModel]]:
    """The models found by walking `loc`: names of models, through mappings and lists of them."""
    here: list[type[BaseModel]] = [model]
    for step in loc:
        inner = [
            found
            for owner in here
            for name, field in owner.model_fields.items()
            if step in (name, field.alias)
            for found in _models(field.annotation)
        ]
        here = inner or here
    return here


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    from typing import get_args

    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
