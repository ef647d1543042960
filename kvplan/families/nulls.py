"""Nulls where a type's class takes a number or a switch: no engine that asks that class starts on them.

Source: transformers 5.19 and 5.23, whose configuration classes are strict about types; asked of vLLM 0.33.
"""

from __future__ import annotations

from kvplan.errors import BadField
from kvplan.families.defaults import ClassDefaults, class_defaults
from kvplan.families.fields import Fields


def refuse_nulls(fields: Fields) -> None:
    """Refuse a null that the class of the language model, or of a whole around it, doesn't take.

    Nothing is refused where the whole's config is read by other code: its own, or an engine's for a type that transformers
    doesn't have.

    Raises: BadField.
    """
    outermost = (fields.node, *fields.parents)[-1]
    if "auto_map" in outermost or not class_defaults(outermost.get("model_type")).known:
        return
    path = fields.path.split(".")[:-1]
    outer = [(node, class_defaults(node.get("model_type"))) for node in fields.parents]
    for depth, (node, defaults) in enumerate(((fields.node, fields.defaults), *outer)):
        here = "".join(f"{step}." for step in path[: len(path) - depth])
        for name in (name for name, value in node.items() if value is None or (name, value) in AS_NULL):
            default = refused(defaults, name)
            if default is not None:
                raise BadField(
                    here + name, node[name], "true or false" if isinstance(default, bool) else "a number",
                    cause=f"the class of {defaults.model_type} takes no null for it{_said(node[name])}, so that engines don't start",
                    hint=f"leave it out, which is {str(default).lower()}, or write what it is",
                )  # fmt: skip


AS_NULL = (("sliding_window", 0),)
"""What engines write a null for. Source: vLLM 0.33 config/model.py."""


def _said(value: object) -> str:
    return "" if value is None else f", and {value} is taken for one"


def refused(defaults: ClassDefaults, name: str) -> int | float | bool | None:
    """What the class has by default for a field that it takes no null for; None where it may take one."""
    value = defaults.values.get(name)
    takes = name in defaults.values.get("nullable", ()) or name in ("flat", "kwargs")
    return None if takes or not isinstance(value, int | float) else value
