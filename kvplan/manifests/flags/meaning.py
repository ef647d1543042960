"""What one of vLLM's flags means to a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvplan.manifests.flags.values import text
from kvplan.manifests.places import Key


def words(written: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(written.split())


def _always(_value: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class FlagMeaning:
    """What a flag means to a plan.

    key: of a budget, that the flag sets; None for one that is only remarked on, or that is a part of something else. read:
    its value from what was written (raising BadSize or UsageError), None for a value that says nothing. option: the field
    of Options that the value sets. uncounted: what a plan does instead of counting the flag. harmless: words that leave
    memory as it is. moves: whether another value moves it. overrides: whether the flag replaces parts of the
    config, which may then say something else: a longer context too. partly: whether the key is set beside the remark, which is about the rest. careful: whether a plan
    without the flag counts more, never less. frees: whether so much more that too little memory by that plan is no answer.
    """

    key: Key | None = None
    read: Callable[[object], Any] = text
    option: str | None = None
    uncounted: str | None = None
    harmless: frozenset[str] = frozenset()
    moves: Callable[[object], bool] = _always
    overrides: bool = False
    partly: bool = False
    careful: bool = False
    frees: bool = False

    def remarked(self, said: object) -> bool:
        """Whether a value moves memory in a way that isn't counted; an object without keys says nothing."""
        empty = said == {} or (isinstance(said, str) and "".join(said.split()) in ("None", "{}"))
        harmless = said is False or empty or (isinstance(said, str) and said in self.harmless)
        return self.uncounted is not None and not harmless and self.moves(said)

    def value(self, said: object) -> object:
        """What the flag sets its key to: an engine's own flag as it was written, once that could be read.

        Raises: BadSize; UsageError.
        """
        read = self.read(said)
        if self.option is None:
            return read
        return json.dumps(said) if isinstance(said, dict) else said
