"""Values of another type than a type's class takes: the strict configuration classes of Transformers 5 don't start on them.

Of fields that decide on sizes too much is refused by whoever reads them, whatever the engine; this is about all others.

Source: transformers 5.19 and 5.23, whose configuration classes are strict about types; asked of vLLM 0.33.
"""

from __future__ import annotations

from kvplan.families.fields import Fields
from kvplan.families.nulls import judged
from kvplan.text import any_of

LETTERS = {bool: "b", int: "i", float: "f", str: "s", list: "l", dict: "d"}
"""What class_defaults.json calls a type of JSON's values."""

WORDS = {
    "b": "true or false", "i": "a whole number", "f": "a number with a point", "s": "a text", "l": "a list", "d": "an object",
    "n": "null",
}  # fmt: skip

LONGEST = 40
"""Characters of a value that are shown."""


def mistyped(fields: Fields) -> str | None:
    """The first value, by its path, that the class of the language model, or of a whole around it, doesn't take, and what it does."""
    for path, node, defaults in judged(fields):
        for name, value in node.items():
            taken, letter = defaults.kinds(name), LETTERS.get(type(value))
            if taken and letter is not None and letter not in taken:
                shown = repr(value) if len(repr(value)) <= LONGEST else f"{repr(value)[:LONGEST]}..."
                return f"{path}{name} is {shown}, not {any_of(WORDS[each] for each in taken)}"
    return None
