"""Bisection over whole numbers: the number at which a yes-or-no answer changes, exactly."""

from __future__ import annotations

from collections.abc import Callable


def largest(holds: Callable[[int], bool], most: int, near: int | None = None) -> int:
    """Largest whole number from 1 to `most` for which `holds`, which must stay false once it is; 0 if there is none.

    near: a guess. A good one saves most of the calls, a bad one doubles them; the answer is the same.
    """
    if most > 0 and holds(most):
        return most
    low, high = 0, most
    if near is not None and most > 1:
        low, high = _around(holds, min(max(near, 1), most - 1), most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _around(holds: Callable[[int], bool], near: int, most: int) -> tuple[int, int]:
    """A number for which it holds (or 0) and a larger one for which it doesn't, found in doubling steps from `near`."""
    step = 1
    if holds(near):
        while near + step < most and holds(near + step):
            near, step = near + step, 2 * step
        return near, min(near + step, most)
    while near - step > 0 and not holds(near - step):
        near, step = near - step, 2 * step
    return max(near - step, 0), near


def smallest(holds: Callable[[int], bool], most: int, near: int | None = None) -> int | None:
    """Smallest whole number from 1 to `most` for which `holds`, which must stay true once it is; None if none."""
    below = largest(lambda number: not holds(number), most, near)
    return None if below == most else below + 1
