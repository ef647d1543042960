"""A deployment's matrix: every combination of its values, each a deployment of its own, minus what is excluded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from kvplan.check.budgets.merge import Layer, Source, flat
from kvplan.check.budgets.messages import fault, faults
from kvplan.manifests.places import Place

if TYPE_CHECKING:
    from kvplan.check.budgets.fields import DeploymentFields
    from kvplan.sources.strict import Path

MOST = 10_000
"""Combinations of one matrix."""

_AXES = frozenset({"model", "revision", "gpu", "gpu_memory", "engine", "context", "concurrency", "kv_dtype", "draft"})
_GROUPS = frozenset({"parallel", "flags"})


@dataclass(frozen=True, slots=True)
class Combination:
    """One point: its values by axis as written, and the layer that sets them."""

    values: Mapping[str, object]
    layer: Layer

    @property
    def label(self) -> str:
        """`[gpu=h100,tp=8]`; empty without a matrix."""
        words = ",".join(f"{axis.rpartition('.')[2]}={_word(value)}" for axis, value in self.values.items())
        return f"[{words}]" if words else ""


def combinations(deployment: DeploymentFields, path: Path, source: Source) -> Iterator[Combination]:
    """Every combination, in the order of the file; one without values where there is no matrix.

    Raises: BudgetFault for an unknown axis, a value that can't be one, too many, or an exclusion that matches nothing.
    """
    matrix = deployment.matrix or {}
    if prod(len(values) for values in matrix.values()) > MOST:
        raise fault(source.place((*path, "matrix")), f"the matrix has more than {MOST:,} combinations")
    for axis, axis_values in matrix.items():
        place = source.place((*path, "matrix", axis))
        _check_axis(axis, place)
        if len({_word(value) for value in axis_values}) < len(axis_values):
            raise fault(place, f"{axis} has a value twice")
    excluded = [{axis: _word(value) for axis, value in entry.items()} for entry in deployment.exclude or ()]
    used = [False] * len(excluded)
    for chosen in product(*matrix.values()):
        values = dict(zip(matrix, chosen, strict=True))
        written = {axis: _word(value) for axis, value in values.items()}
        hits = [index for index, entry in enumerate(excluded) if entry.items() <= written.items()]
        for index in hits:
            used[index] = True
        if not hits:
            yield Combination(values, _layer(values, path, source))
    for index, hit in enumerate(used):
        if not hit:
            raise fault(source.place((*path, "exclude", index)), "this exclusion matches no combination of the matrix")


def _check_axis(axis: str, place: Place) -> None:
    group, dot, inner = axis.partition(".")
    if not dot and axis in _AXES:
        return
    if dot and inner and group in _GROUPS:
        return
    known = ", ".join(sorted(_AXES)) + ", parallel.tp (pp, dp, ep, dcp), flags.NAME"
    raise fault(place, f"the matrix can't vary {axis!r}", hint=f"it can vary {known}")


def _layer(values: Mapping[str, object], path: Path, source: Source) -> Layer:
    from pydantic import ValidationError

    from kvplan.check.budgets.fields import Plannable

    tree: dict[str, object] = {}
    for axis, value in values.items():
        group, dot, inner = axis.partition(".")
        if dot:
            held = tree.setdefault(group, {})
            assert isinstance(held, dict)  # noqa: S101 - a plain axis can't be called like a group
            held[inner] = value
        else:
            tree[axis] = value
    try:
        fields = Plannable.model_validate(tree)
    except ValidationError as error:
        raise faults(error, Plannable, source, (*path, "matrix")) from None
    layer = flat(fields, (), source, own=True)
    return {key: replace(placed, place=source.place((*path, "matrix", ".".join(key)))) for key, placed in layer.items()}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
