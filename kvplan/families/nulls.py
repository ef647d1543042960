"""Nulls where a type's class takes a number or a switch: the strict configuration classes of Transformers 5 don't start on them.

Source: transformers 5.19 and 5.23, whose configuration classes are strict about types; asked of vLLM 0.33.
"""

from __future__ import annotations

from kvplan.families.defaults import ClassDefaults, class_defaults
from kvplan.families.fields import Fields

AS_NULL = (("sliding_window", 0),)
"""What engines write a null for. Source: vLLM 0.33 config/model.py."""


def nulled(fields: Fields) -> str | None:
    """The first null, by its path, that the class of the language model, or of a whole around it, doesn't take.

    None is meant where the whole's config is read by other code: its own, or an engine's for a type that transformers doesn't
    have.
    """
    outermost = (fields.node, *fields.parents)[-1]
    if "auto_map" in outermost or not class_defaults(outermost.get("model_type")).known:
        return None
    path = fields.path.split(".")[:-1]
    outer = [(node, class_defaults(node.get("model_type"))) for node in fields.parents]
    for depth, (node, defaults) in enumerate(((fields.node, fields.defaults), *outer)):
        here = "".join(f"{step}." for step in path[: len(path) - depth])
        for name, value in node.items():
            if (value is None or (name, value) in AS_NULL) and _is_strict(defaults, name):
                return here + name
    return None


def _is_strict(defaults: ClassDefaults, name: str) -> bool:
    """Whether the class takes a number or a switch for a field, and no null."""
    takes = name in defaults.values.get("nullable", ()) or name in ("flat", "kwargs")
    return isinstance(defaults.values.get(name), int | float) and not takes
