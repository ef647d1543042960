"""What a config says of sliding windows, for engines that read it without asking which type it is."""

from __future__ import annotations

from kvplan.arch.model import Windows
from kvplan.families import patterns
from kvplan.families.fields import Fields
from kvplan.families.window_length import switched

LISTED = {patterns.FULL: "full_attention", patterns.SLIDING: "sliding_attention"}
"""What layer_types calls the kinds that classes fill it with."""


def windows(fields: Fields, count: int) -> Windows:
    """The window, the kinds of layers and the first windowed layer that the Transformers library's object would hold.

    count: layers of the stack. An object keeps fields that its class doesn't know.

    Raises: BadField, Unsupported, MissingField.
    """
    tokens, silent = _tokens(fields), fields.find("sliding_window") is None
    return Windows(tokens, _kinds(fields, count), _number(fields, "max_window_layers"), silent and tokens is not None)


def _tokens(fields: Fields) -> int | None:
    on = _stated(fields, "use_sliding_window")
    if (switched(fields) and not on) or (not fields.defaults.known and on is False):
        return None
    return _number(fields, "sliding_window") or None


def _number(fields: Fields, name: str) -> int | None:
    """A whole number from 0; None where there is none, or less."""
    found = _stated(fields, name)
    if found is None:
        return None
    number = fields.as_whole(name, found, least=-1)
    return number if number >= 0 else None


def _stated(fields: Fields, name: str) -> object:
    """A field of the config, or where it doesn't have it of the class, without a note that the class's was used."""
    found = fields.find(name)
    if found is not None:
        return found[1]
    return None if fields.stated_null(name) else fields.defaults.value(name)


def _kinds(fields: Fields, count: int) -> tuple[str, ...]:
    stated = fields.items("layer_types")
    words = fields.defaults.builds("layer_types") if stated is None else frozenset()
    if not words <= patterns.WORDS.keys():
        stated = fields.defaults.pattern("layer_types", count)
    elif words:
        stated = tuple(LISTED.get(kind, kind) for kind in patterns.kinds(fields, count))
    return tuple(dict.fromkeys(map(str, patterns.as_kept(fields, "layer_types", stated or ()))))
