"""Windows that are switched off by a number below one, which means something else to engines."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.traits import NEGATIVE_WINDOW, ZERO_WINDOW
from kvplan.families import counts, patterns
from kvplan.families.fields import Fields, Ledger


def window_traits(fields: Fields) -> tuple[str, ...]:
    """Whether the config switches windows off by a number that engines take for their length.

    Raises: BadField, Unsupported.
    """
    found = fields.find("sliding_window")
    if found is None or isinstance(found[1], bool) or not isinstance(found[1], int | float) or found[1] > 0:
        return ()
    windowed = replace(fields, node={**fields.node, found[0]: 1}, ledger=Ledger())
    kinds = patterns.kinds(windowed, counts.layer_count(windowed))
    asked = {patterns.SLIDING, patterns.BOTH_SLIDING}.intersection(kinds)
    return (NEGATIVE_WINDOW if found[1] < 0 else ZERO_WINDOW,) if asked else ()
