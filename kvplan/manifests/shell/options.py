"""Words of a command taken for options and what is left of them, as most programs do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from kvplan.manifests.shell.word import Word


def program(word: Word) -> str:
    """The name of a program, without its folder."""
    return word.text.rpartition("/")[2]


def options(words: Sequence[Word], *names: str) -> Iterator[Word]:
    """Every value of an option that may be given several times, and under several names: `--name value`, `--name=value`."""
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name not in names:
            continue
        if equals:
            yield replace(word, text=value)
        elif index + 1 < len(words):
            yield words[index + 1]


def option(words: Sequence[Word], *names: str) -> Word | None:
    """Its first value; None where it isn't given."""
    return next(options(words, *names), None)


def operands(words: Sequence[Word], valued: AbstractSet[str]) -> Iterator[int]:
    """Where words stand that are neither options nor values of those that take one."""
    before = ""
    for at, word in enumerate(words):
        if not word.text.startswith("-") and before not in valued:
            yield at
        before = word.text
