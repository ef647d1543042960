"""What a value of a config must be: one check for each kind of field, each naming the field it refuses.

Whoever writes "false" means false, and Python takes it for true; an engine of the day may take it either way, or not start. So a
value of another type than its field's is refused, whatever a reader could make of it. Null is absent, and never gets here.

Source: transformers 5.23, whose configuration classes are strict about types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from kvplan.errors import BadField

LARGEST = 2**40
"""No dimension, window or length of a real model comes near; what does is a mistake."""


def whole(path: str, value: object, *, least: int = 1) -> int:
    """A whole number, also with a decimal point.

    Raises: BadField for text, booleans, fractions, NaN, and what is below `least` or absurdly large.
    """
    wanted = "a positive whole number" if least == 1 else f"a whole number of at least {least}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise BadField(path, value, wanted, hint=_unquoted(value))
    if value != int(value) or not least <= value <= LARGEST:
        raise BadField(path, value, wanted)
    return int(value)


def positive(path: str, value: object) -> int | float:
    """A number above zero, whole or not.

    Raises: BadField.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not 0 < value <= LARGEST:
        raise BadField(path, value, "a positive number", hint=_unquoted(value))
    return value


def switch(path: str, value: object) -> bool:
    """A switch: true, false, 0 or 1.

    Raises: BadField.
    """
    if not isinstance(value, bool) and (not isinstance(value, int | float) or value not in (0, 1)):
        hint = _unquoted(value.lower()) if isinstance(value, str) else None
        raise BadField(path, value, "true or false", hint=hint)
    return bool(value)


def text(path: str, value: object) -> str:
    """A string.

    Raises: BadField.
    """
    if not isinstance(value, str):
        raise BadField(path, value, "a string")
    return value


def items(path: str, value: object) -> tuple[Any, ...]:
    """A list.

    Raises: BadField.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise BadField(path, value, "a list", hint=f'write ["{value}"]' if isinstance(value, str) else None)
    return tuple(value)


def table(path: str, value: object) -> Mapping[str, Any]:
    """A nested object.

    Raises: BadField.
    """
    if not isinstance(value, Mapping):
        single = isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping)
        raise BadField(path, value, "an object", hint="take it out of the list: {...}" if single else None)
    return value


def _unquoted(value: object) -> str | None:
    """What to write instead of a number or a switch in quotes."""
    plain = isinstance(value, str) and (value in ("true", "false") or value.removeprefix("-").isdecimal())
    return f"write {value}, without quotes" if plain else None
