"""Wording that all messages share: plurals, lists, and suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def plural(count: int, noun: str) -> str:
    """`1 sequence`, `1,024 sequences`."""
    return f"{count:,} {noun}{ending(count)}"


def ending(count: int) -> str:
    """The plural `s` of a noun, empty for a count of one."""
    return "" if count == 1 else "s"


def any_of(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return _joined(list(words), "or")


def all_of(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return _joined(list(words), "and")


def layers_text(numbers: Sequence[int]) -> str:
    """`layer 3`, `layers 0 and 3`, `layers 4 to 7, 9 and 12`."""
    runs = [
        f"{first} to {last}" if last > first + 1 else all_of(map(str, range(first, last + 1)))
        for first, last in _runs(numbers)
    ]
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


def _joined(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def nearest(word: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Known names that a mistyped one may stand for, likeliest first. cutoff: least similarity, 0 to 1."""
    from difflib import get_close_matches

    return get_close_matches(word, list(known), n=most, cutoff=cutoff)


def meant(word: str, known: Iterable[str], *, dashes: str = "", after: str = "", cutoff: float = 0.6) -> str:
    """`did you mean NAME?`, followed by `after`; empty if no name is near. dashes: written before the name."""
    near = nearest(word, known, cutoff=cutoff)
    return f"did you mean {dashes}{near[0]}?{after}" if near else ""


def on_one_line(text: str, *, word: int, most: int) -> str:
    """Foreign text for quoting: printable, with words of at most `word` and in all at most `most` characters."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))
    plain = " ".join(each if len(each) <= word + len("...") else each[:word] + "..." for each in plain.split(" "))
    return plain if len(plain) <= most else plain[:most] + "..."
