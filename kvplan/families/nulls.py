"""Nulls where a type's class takes none: the strict configuration classes of Transformers 5 don't start on them.

Source: transformers 5.19 and 5.23, whose configuration classes are strict about types; asked of vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.families.defaults import ClassDefaults, class_defaults
from kvplan.families.fields import Fields
from kvplan.families.scalings import of_object
from kvplan.families.weights.rotary_rules import rule_of

AS_NULL = (("sliding_window", 0),)
"""What engines write a null for. Source: vLLM 0.33 config/model.py."""

BASE = "rope_theta"
"""What rotary positions can't be computed without: a class takes its null, and engines fail on it."""


def nulled(fields: Fields) -> str | None:
    """The first null, by its path, that the class of the language model, or of a whole around it, doesn't take."""
    turns = rule_of(fields.model_type)
    needless = {BASE} if turns.if_stated or not turns.rotates else set()
    for path, node, defaults in judged(fields):
        for name, value in node.items():
            null = value is None or (name, value) in AS_NULL
            if null and _is_strict(defaults, name) and name not in needless and not _said(node, name):
                return path + name
    return None


def judged(fields: Fields) -> Iterator[tuple[str, Mapping[str, Any], ClassDefaults]]:
    """The language model's object and those around it, each with its path and its class, where strict classes read them.

    None where the whole's config is read by other code: its own, or an engine's for a type that transformers doesn't
    have. Code that a checkpoint brings for a type that it has isn't read unless that is asked for.
    """
    objects = list(fields.around())
    if not class_defaults(objects[-1][1].get("model_type")).known:
        return
    for path, node in objects:
        yield path, node, fields.defaults if node is fields.node else class_defaults(node.get("model_type"))


def _is_strict(defaults: ClassDefaults, name: str) -> bool:
    """Whether the class takes no null for a field, of any kind."""
    takes = name in defaults.values.get("nullable", ()) or name in ("flat", "kwargs")
    sized = isinstance(defaults.values.get(name), int | float) and not takes
    return sized or name in defaults.values.get("strict", ())


def _said(node: Mapping[str, Any], name: str) -> bool:
    """Whether the base of rotary positions, which nothing takes the place of, stands in all the scalings instead."""
    stated = of_object(node).values()
    return name == BASE and bool(stated) and all(each.get(BASE) is not None for each in stated)
