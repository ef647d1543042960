"""Where a question that can be asked of every whole number stops being answered the same: exact, by bisection."""

from __future__ import annotations

from collections.abc import Callable


def largest(holds: Callable[[int], bool], most: int) -> int:
    """Largest whole number from 1 to `most` for which `holds`, which stays false once it is; 0 if none."""
    if most > 0 and holds(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def smallest(holds: Callable[[int], bool], most: int) -> int | None:
    """Smallest whole number from 1 to `most` for which `holds`, which stays true once it is; None if none."""
    below = largest(lambda number: not holds(number), most)
    return None if below == most else below + 1
