"""What a reference implementation's configuration class fills in when a config is silent.

class_defaults.json holds the facts, per model type; tests/oracles/class_defaults.py remakes it. This is the one place
where the families touch a file: their own table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

ALSO_READ: Mapping[str, tuple[str, ...]] = {"nemotron_h": ("attention_head_dim",)}
"""Fields that a type's published code reads and the reference implementation's class spells otherwise.

Source: nvidia/Nemotron-H-8B-Base-8K configuration_nemotron_h.py.
"""


@dataclass(frozen=True, slots=True)
class ClassDefaults:
    """Defaults of one model type's configuration class. `known` is False for types the table doesn't hold."""

    model_type: str
    source: str
    values: Mapping[str, Any]
    known: bool

    def value(self, name: str) -> object:
        """The default of a field, by its own or its mapped name; None when the class has none.

        What the class fills in for an absent field ("effective", "kwargs") wins over what its signature says.
        """
        for group in ("effective", "kwargs"):
            inner = self.values.get(group, {})
            if name in inner:
                found: object = inner[name]
                return found
        return self.values.get(self.spellings.get(name, name))

    @property
    def spellings(self) -> Mapping[str, str]:
        """Standard fields that this class spells its own way, and how."""
        spelled: Mapping[str, str] = self.values.get("attribute_map", {})
        return spelled

    def own_name(self, name: str) -> str:
        """How this class spells a standard field."""
        return self.spellings.get(name, name)

    def reads(self, name: str) -> bool:
        """Whether the class has a field of that name; of a type that isn't in the table nobody knows, so it may."""
        values, first = self.values, name.partition(".")[0]
        groups = (values, values.get("effective", {}), values.get("kwargs", {}), values.get("sub_configs", {}))
        return (
            not self.known
            or any(first in group for group in groups)
            or first in self.spellings.values()
            or first in ALSO_READ.get(self.model_type, ())
        )

    def pattern(self, name: str, count: int) -> tuple[str, ...] | None:
        """A per-layer list that the class builds for `count` layers when the config leaves it out.

        None where it builds none, and where what it builds for so many layers isn't known: see `builds`.
        """
        law = self.values.get("lists", {}).get(name)
        return None if law is None else _listed(law, count)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """The layer numbers that the class fills in when the config leaves a list of those out; None where it has none."""
        found = self.values.get("lists", {}).get(name, {}).get("indices")
        return tuple(found) if isinstance(found, list) else None

    def last(self, name: str) -> str | None:
        """What the class writes over the last entry of a per-layer list, stated or not; None where it leaves it."""
        entry: str | None = self.values.get("last", {}).get(name)
        return entry

    def builds(self, name: str) -> frozenset[str]:
        """The words of a per-layer list that the class builds, for however many layers; empty where it builds none."""
        law = self.values.get("lists", {}).get(name, {})
        law = law.get("reversed", law)
        stretches = (word for _, word in law.get("runs", ()))
        return frozenset((*law.get("prefix", ()), *law.get("cycle", ()), *law.get("suffix", ()), *stretches))

    @property
    def text_key(self) -> str | None:
        """Where alone the class of a whole looks for its language model's fields; None where it looks at the top too."""
        if "num_hidden_layers" in self.values or "flat" in self.values:
            return None
        return next((key for key in TEXT_KEYS if key in self.values.get("sub_configs", {})), None)

    @property
    def flat_until(self) -> str | None:
        """The older release whose class looks at the top where no nested config is; None where the table's does, or neither."""
        until: str | None = self.values.get("flat_until")
        return until

    def kinds(self, name: str) -> str:
        """Types of JSON's values that the class takes for a field, as letters; "" where it has no such field, or takes any."""
        values = self.values
        if name not in values.get("strict", ()) and not isinstance(values.get(name), int | float):
            return ""
        kinds = _table()["kinds"]
        taken: str = kinds["types"].get(self.model_type, {}).get(name, kinds["fields"].get(name, ""))
        return taken

    def nested(self, key: str, stated: object = None) -> ClassDefaults:
        """Defaults of a nested config, of the type it states or of its class's own.

        Where the whole is left out (`stated` None), what its class says of it comes before the nested type's own.
        """
        if stated is not None:
            return class_defaults(stated)
        inner = class_defaults(self.nested_type(key))
        own = {
            name: value for name, value in self.values.get("sub_configs", {}).get(key, {}).items() if name not in _ABOUT
        }
        return replace(inner, values={**inner.values, **own})

    def nested_type(self, key: str) -> str | None:
        """Model type of a nested config (`text_config`) that doesn't say its own."""
        nested: str | None = self.values.get("sub_configs", {}).get(key, {}).get("model_type")
        return nested


TEXT_KEYS = ("text_config", "thinker_config")
"""Keys of the nested configs that classes of wholes keep their language models in."""

_ABOUT = ("model_type", "optional")
"""What an entry of sub_configs says of the nested config itself, beside its fields."""


def _listed(law: Mapping[str, Any], count: int) -> tuple[str, ...] | None:
    """`count` entries by a law of class_defaults.json; None where it holds for another number of layers alone."""
    if "reversed" in law:
        backwards = _listed(law["reversed"], count)
        return None if backwards is None else backwards[::-1]
    if "cycle" not in law:
        entries = [word for times, word in law.get("runs", ()) for _ in range(times)]
        alike = len(set(entries)) == 1 and count <= len(entries)
        return tuple(entries[:count]) if alike or count == len(entries) else None
    head, tail, cycle = list(law.get("prefix", ())), list(law.get("suffix", ())), law["cycle"]
    middle = [cycle[index % len(cycle)] for index in range(max(0, count - len(head)))]
    entries = (head + middle)[:count]
    if tail:
        entries[-len(tail) :] = tail
    return tuple(entries)


@cache
def _table() -> dict[str, Any]:
    text = files("kvplan.families").joinpath("class_defaults.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def class_defaults(model_type: object) -> ClassDefaults:
    """Defaults for a model type; an empty, unknown one for what isn't text or isn't in the table."""
    table = _table()
    name = model_type if isinstance(model_type, str) else ""
    values = table["types"].get(name)
    return ClassDefaults(name, f"{table['source']}, {name}", values or {}, values is not None)


def of_architecture(name: str) -> ClassDefaults | None:
    """Defaults of the type that a model's class is of; None for a class that transformers doesn't have."""
    model_type = _architectures().get(name)
    return None if model_type is None else class_defaults(model_type)


@cache
def _architectures() -> Mapping[str, str]:
    """The type of each class; of a whole's and its text's that share one, the text's, which comes later."""
    types: Mapping[str, Mapping[str, Any]] = _table()["types"]
    return {name: model_type for model_type, values in types.items() for name in values.get("architectures", ())}


def is_encoder(model_type: str) -> bool:
    """Whether transformers knows a type, or the whole that a text tower is of, and generates with it under no class."""
    known = _encoders()
    return model_type in known or model_type.removesuffix("_text_model") in known


@cache
def _encoders() -> frozenset[str]:
    return frozenset(_table()["encoders"])
