"""Growth laws as data: bytes that a sequence of n tokens keeps, and the tokens that fit in a number of bytes.

Layers only state how they grow. One evaluator and one exact inverse serve every model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvplan.arch.search import largest

LONGEST = 2**40
"""Longest sequence considered, in tokens. A curve that never reaches the budget answers this."""


@dataclass(frozen=True, slots=True)
class StateGroup:
    """One growth law: bytes that a sequence of n tokens keeps on one rank.

        bytes(n) = fixed + per_state * ceil((min(n, cap) // stride) / spread)

    per_state: bytes of one entry. stride: tokens that share one entry (compressed attention: 4, 128). cap: tokens after
    which nothing grows (a window). fixed: bytes at any length (recurrent state). spread: ranks that entries are dealt
    to in turn (decode context parallelism); the law is the fullest rank's.
    """

    per_state: int = 0
    stride: int = 1
    cap: int | None = None
    fixed: int = 0
    spread: int = 1

    def __post_init__(self) -> None:
        if min(self.per_state, self.fixed) < 0 or min(self.stride, self.spread) < 1:
            raise ValueError(f"not a growth law: {self}")
        if self.cap is not None and self.cap < 0:
            raise ValueError(f"not a growth law: {self}")

    def bytes_at(self, tokens: int) -> int:
        """Bytes that a sequence of `tokens` keeps."""
        seen = tokens if self.cap is None else min(tokens, self.cap)
        return self.fixed + self.per_state * -(-(seen // self.stride) // self.spread)

    @property
    def grows_forever(self) -> bool:
        """Whether it grows at every length."""
        return self.cap is None and self.per_state > 0


@dataclass(frozen=True, slots=True)
class Curve:
    """Distinct growth laws and how many layers follow each."""

    terms: tuple[tuple[StateGroup, int], ...]

    def bytes_at(self, tokens: int) -> int:
        """Bytes that one sequence of `tokens` keeps. With 0: what it keeps before its first token."""
        return sum(group.bytes_at(tokens) * layers for group, layers in self.terms)

    def bytes_over(self, lengths: Sequence[int]) -> list[int]:
        """`bytes_at` for many lengths. Laws are merged once, so that a long list costs less than single calls."""
        merged: dict[tuple[int, int | None, int], int] = {}
        for group, layers in self.terms:
            key = (group.stride, group.cap, group.spread)
            merged[key] = merged.get(key, 0) + group.per_state * layers
        laws = [StateGroup(per, stride, cap, 0, spread) for (stride, cap, spread), per in merged.items() if per]
        fixed = self.fixed_bytes
        return [fixed + sum(law.bytes_at(tokens) for law in laws) for tokens in lengths]

    def slope_at(self, tokens: int) -> int:
        """Bytes added by one more token after `tokens`, averaged over a whole number of strides.

        Windows that are full by then add nothing. A law with a stride adds an entry every `stride` tokens: the slope is
        the bytes of that span divided by its length, rounded to the nearest byte.
        """
        span = self.span
        added = 0
        for group, layers in self.terms:
            if group.cap is None or tokens < group.cap:
                added += group.per_state * layers * span // (group.stride * group.spread)
        return (2 * added + span) // (2 * span)

    @property
    def span(self) -> int:
        """Tokens in which every law completes a whole number of strides."""
        from math import lcm

        return lcm(1, *(group.stride * group.spread for group, _ in self.terms))

    @property
    def bytes_per_token(self) -> int:
        """Bytes that token 1 adds."""
        return self.bytes_at(1) - self.bytes_at(0)

    @property
    def bytes_per_token_full(self) -> int:
        """Bytes that one more token adds once every window is full."""
        return self.slope_at(self.full_after)

    @property
    def fixed_bytes(self) -> int:
        """Bytes kept at any length."""
        return sum(group.fixed * layers for group, layers in self.terms)

    @property
    def full_after(self) -> int:
        """Tokens after which every window is full; 0 without windows."""
        return max((group.cap or 0 for group, _ in self.terms if group.per_state), default=0)

    def tokens_that_fit(self, budget_bytes: int) -> int:
        """Largest n with bytes_at(n) <= budget, exact: by bisection, not by dividing by a slope.

        0 if not even one token fits; LONGEST if the curve stops growing below the budget.
        """
        return largest(lambda tokens: self.bytes_at(tokens) <= budget_bytes, LONGEST, self.about(budget_bytes))

    def about(self, size: int) -> int | None:
        """Estimate of the tokens that keep `size` bytes, as if entries came evenly; None if nothing grows forever."""
        full = self.full_after
        rate = sum(
            group.per_state * layers / (group.stride * group.spread)
            for group, layers in self.terms
            if group.grows_forever
        )
        return full + int((size - self.bytes_at(full)) / rate) if rate else None
