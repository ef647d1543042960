"""Numbers of layers in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvplan.text import all_of, ending


def layers_text(numbers: Sequence[int]) -> str:
    """`layer 3`, `layers 0 and 3`, `layers 4 to 7, 9 and 12`."""
    runs = [f"{first} to {last}" if last > first + 1 else all_of(map(str, range(first, last + 1))) for first, last in _runs(numbers)]  # fmt: skip
    return f"layer{ending(len(numbers))} {all_of(runs)}"


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for number in sorted(numbers):
        if last >= 0 and number == last + 1:
            last = number
            continue
        if last >= 0:
            yield first, last
        first = last = number
    if last >= 0:
        yield first, last
