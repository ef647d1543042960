"""The longest sequence a config justifies, through every spelling of length and of rope scaling."""

from __future__ import annotations

from math import isfinite

from kvplan.arch.model import Context, Rope
from kvplan.families import typed
from kvplan.families.fields import Fields
from kvplan.families.scalings import Scaling, scalings
from kvplan.families.spellings import ORIGINAL, STATED, TABLES
from kvplan.families.typed import LARGEST

SCALED_BY_ORIGINAL = ("yarn", "deepseek_yarn")
"""Rope types whose reach is original_max_position_embeddings x factor."""

COPIES = ("phimoe",)
"""Types whose class makes the original length of a scaling its own, where it has none. Source: transformers 5.23
models/phimoe/configuration_phimoe.py validate_rope."""


def context(fields: Fields) -> Context:
    """Longest sequence in tokens, or None with the reason.

    A stated length is taken as it stands: whatever scales the rotary positions (yarn, linear, dynamic, llama3, longrope)
    is already in it, and applying a factor on top is how readers arrive at lengths no model has. Where yarn would reach
    further the reason says so. Without a stated length, yarn's reach (original x factor) is the length.
    """
    ropes = _ropes(fields)
    tokens, reason = _longest(fields, ropes)
    return Context(tokens, reason, ropes, _original(fields, ropes), _lengths(fields))


def _original(fields: Fields, ropes: tuple[Rope, ...]) -> int | None:
    """The length before scaling that is the model's own: stated beside the scaling, copied out of it, or its class's.

    What a scaling alone says is the scaling's, for all other classes.
    """
    stated, scaled = fields.whole(ORIGINAL), [rope for rope in ropes if rope.kind != "default"]
    if stated is not None or not scaled:
        return stated
    copied = next((rope.original for rope in scaled if rope.original), None) if fields.model_type in COPIES else None
    return copied or fields.whole_or_default(ORIGINAL)


def _lengths(fields: Fields) -> tuple[tuple[str, int], ...]:
    """Every length that the config states under any name, or its class where the config is silent."""
    found = []
    standard = {own: name for name, own in fields.defaults.spellings.items()}
    for name in (*STATED, *TABLES):
        aliases = (name, fields.defaults.own_name(name), standard.get(name, name))
        stated = [fields.node[alias] for alias in aliases if alias in fields.node]
        value = stated[0] if stated else fields.defaults.value(name)
        if isinstance(value, int | float) and _is_sentinel(value):
            found += [(name, int(value))] if isfinite(value) else []
        elif value is not None:
            found.append((name, typed.whole(fields.path + name, value, least=-1)))
    return tuple(found)


def _longest(fields: Fields, ropes: tuple[Rope, ...]) -> tuple[int | None, str]:
    length, name = _stated(fields)
    reach = max((reach for rope in ropes if (reach := _reach(rope))), default=None)
    if length is None:
        return (reach, "yarn: original x factor") if reach else (None, _why_none(fields))
    if reach is not None and reach > length:
        return length, f"{name}; yarn would reach {reach}, which the config doesn't claim"
    return length, name


def _stated(fields: Fields) -> tuple[int | None, str]:
    for name in (*STATED, *TABLES):
        found = fields.find(name)
        if found is None or _is_sentinel(found[1]):
            continue
        length = fields.as_whole(*found, least=-1)
        if length > 0:
            return length, name
    if any(name in fields.node for name in TABLES):
        return None, ""  # null, zero or a sentinel: said on purpose, and no class default takes its place
    for name in TABLES:
        default = fields.defaults.value(name)
        if isinstance(default, int) and default > 0:
            fields.note_default(name, default)
            return default, f"{name}, a class default"
    return None, ""


def _is_sentinel(value: object) -> bool:
    """Tokenizer configs write 1e30 for "no limit"."""
    return isinstance(value, int | float) and value > LARGEST


def _ropes(fields: Fields) -> tuple[Rope, ...]:
    """Every scaling the config states: one, or one for each type of layer."""
    return tuple(dict.fromkeys(map(_rope, scalings(fields).values())))


def _rope(rope: Scaling) -> Rope:
    kind, factor = rope.get("rope_type", rope.get("type")), rope.get("factor")
    number = isinstance(factor, int | float) and not isinstance(factor, bool) and isfinite(factor) and factor > 0
    readable, original = number or factor is None, rope.get(ORIGINAL)
    return Rope(
        kind if isinstance(kind, str) else "default",
        factor if number else None,
        None if original is None else int(original),
        tuple(sorted(str(key) for key in rope if key != "factor" or readable)),
        None if readable else f'"{factor}", a text' if isinstance(factor, str) else repr(factor),
    )


def _reach(rope: Rope) -> int | None:
    if rope.kind not in SCALED_BY_ORIGINAL or rope.original is None or rope.factor is None:
        return None
    return int(rope.original * rope.factor) if rope.original * rope.factor <= LARGEST else None


def _why_none(fields: Fields) -> str:
    stated = next((name for name in (*STATED, *TABLES) if name in fields.node), None)
    if stated is not None:
        return f"{fields.path}{stated} is {fields.node[stated]!r}, which is no length"
    return f"none of {', '.join(fields.path + name for name in TABLES[:4])} is stated: the model has no position table"
