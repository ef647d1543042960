"""Defaults, templates and a deployment's own keys laid over each other, every value with the line it stands on.

A layer is flat: ("model",) or ("parallel", "tp") to a value and its place. The last layer that has a key wins; a null
takes an inherited value away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvplan.manifests.places import Key, Place, Placed

if TYPE_CHECKING:
    from kvplan.check.budgets.fields import Plannable
    from kvplan.sources.strict import Lines, Path

GROUPS = frozenset({"parallel", "flags", "limits"})
"""Keys that are merged entry by entry."""

NOT_INHERITED = frozenset({"description", "extends", "matrix", "exclude"})


Layer = Mapping[Key, Placed]


@dataclass(frozen=True, slots=True)
class Source:
    """The file that a layer stands in: its name in reports, and the line of every key."""

    name: str
    lines: Lines

    def place(self, path: Path) -> Place:
        """Where `path` stands, or the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return Place(self.name, self.lines.get(path, 1))


def flat(fields: Plannable, path: Path, source: Source, *, own: bool = False) -> dict[Key, Placed]:
    """The keys that were written, one by one."""
    layer: dict[Key, Placed] = {}
    for name in sorted(fields.model_fields_set):
        key = "from" if name == "from_" else name
        value = getattr(fields, name)
        if key in NOT_INHERITED:
            continue
        if key not in GROUPS or value is None:
            layer[(key,)] = Placed(value, source.place((*path, key)), own)
            continue
        for inner, entry in _entries(value):
            here = (*path, key, inner)
            layer[(key, inner)] = Placed(_each(entry, here, source), source.place(here), own)
    return layer


def _each(entry: Any, path: Path, source: Source) -> Any:
    """A limit's bounds with the line of each; anything else as it is."""
    if not isinstance(entry, list):
        return entry
    return tuple((bound, source.place((*path, index))) for index, bound in enumerate(entry))


def _entries(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    return ((name, getattr(value, name)) for name in sorted(value.model_fields_set))


def merged(layers: Iterable[Layer]) -> dict[Key, Placed]:
    """One layer of all, the last wins."""
    found: dict[Key, Placed] = {}
    for layer in layers:
        for key, placed in layer.items():
            if placed.value is None:
                _drop(found, key)
            else:
                found[key] = placed
    return found


def _drop(found: dict[Key, Placed], key: Key) -> None:
    for known in [known for known in found if known[: len(key)] == key]:
        del found[known]
