"""Which steps to time, and which batch fills the memory that is left. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from kvplan.arch.curve import LONGEST
from kvplan.verify.parts import AttentionPart, Blueprint, LatentPart, Mixer
from kvplan.verify.predict import Predicted, workspace_bytes

GRAIN = 64
"""Tokens that contexts are whole multiples of."""
_BATCHES = (1, 4, 16, 64)
_FIXED_STATE_TOKENS = 4096
_MOST_BATCH = 256
_STILL = 65_536
"""Tokens of the context that is timed if caches don't grow with it."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One batch and the contexts at which it is timed, in ascending order."""

    batch: int
    contexts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """`pool` bytes hold at most `batch` sequences of `tokens`; one more exceeds them by far."""

    batch: int
    tokens: int
    pool: int


def limit(predicted: Predicted, plan: Blueprint, room: int, batch: int, least: int = 1) -> Limit | None:
    """A batch near `batch` of sequences as long as fit into `room`, so that one more exceeds it by almost a sequence.

    Page tables and temporary tensors of a step are subtracted from the room first. least: bytes that a sequence should
    have to outweigh the rounding of allocators; the batch is made smaller for it. None if not one token of one sequence
    fits.
    """
    pool = room - workspace_bytes(plan, batch)
    found = _filled(predicted, pool, batch, least)
    tables = 0 if found is None else table_bytes(plan, found.tokens, found.batch, predicted.page)
    return _filled(predicted, pool - tables, batch, least) if tables else found


def _filled(predicted: Predicted, pool: int, batch: int, least: int) -> Limit | None:
    """`limit` for bytes that only caches use."""
    if pool <= 0:
        return None
    batch = max(1, min(batch, pool // least))
    tokens = predicted.longest(pool, batch)
    if tokens == 0 and batch > 1:
        batch, tokens = 1, predicted.longest(pool, 1)
    if tokens == 0:
        return None
    if tokens == LONGEST:
        # Nothing grows: sequences are all alike, and the pool is cut to a number of them.
        tokens = max(_FIXED_STATE_TOKENS, *(curve.full_after for curve in [predicted.reads_curve]))
        each = predicted.cache_bytes(tokens)
        if each == 0:
            return None
        batch = min(_MOST_BATCH, max(1, pool // each))
        return Limit(batch, tokens, batch * each + each // 2)
    return Limit(predicted.max_batch(pool, tokens), tokens, pool)


def table_bytes(plan: Blueprint, tokens: int, batch: int, page: int | None) -> int:
    """Bytes of page tables, 4 B a page. Every mixer that stores tokens has one, for as many tokens as it keeps.

    Computed here and not taken from the tensors: a surplus would hold another sequence, and a deficit would hide one.
    """
    if page is None:
        return 0
    pages = sum(-(-_slots(part, tokens) // page) for layer in plan.layers for part in layer.mixers)
    return 4 * batch * pages


def _slots(part: Mixer, tokens: int) -> int:
    """Slots for tokens that a mixer allocates: none for a state, or for a cache that belongs to another layer."""
    if isinstance(part, LatentPart):
        return part.slots(tokens)
    return part.slots(tokens) if isinstance(part, AttentionPart) and part.shares is None else 0


def rungs(
    predicted: Predicted,
    plan: Blueprint,
    room: int,
    batches: Sequence[int] = (),
    contexts: Sequence[int] = (),
    steps: int = 4,
) -> tuple[Rung, ...]:
    """Batches with the longest context that fits and halves of it; or those asked for, if they fit."""
    found = []
    grain = lcm(GRAIN, predicted.page or 1)
    for batch in batches or _BATCHES:
        pool = room - workspace_bytes(plan, batch)
        pool -= pool // 64  # rounding
        longest = _longest(predicted, pool, batch)
        longest = _longest(predicted, pool - table_bytes(plan, longest, batch, predicted.page), batch)
        longest = _rounded(longest, grain, plan)
        if contexts:
            fitting = tuple(sorted(context for context in contexts if context <= longest))
        else:
            halves = (_rounded(longest // 2**step, grain, plan) for step in range(steps))
            fitting = tuple(sorted({tokens for tokens in halves if tokens}))
        if fitting:
            found.append(Rung(batch, fitting))
    return tuple(found)


def _longest(predicted: Predicted, pool: int, batch: int) -> int:
    """Tokens of each of `batch` sequences that fit. If nothing grows, a length long enough to show it."""
    longest = 0 if pool <= 0 else predicted.longest(pool, batch)
    if longest == LONGEST:
        return _STILL if predicted.cache_bytes(_STILL) * batch <= pool else 0
    return longest


def whole(plan: Blueprint, tokens: int) -> bool:
    """Whether a step of that length reads a whole chunk, as predictions assume, or is within its first."""
    return _rounded(tokens, 1, plan) == tokens


def _rounded(tokens: int, grain: int, plan: Blueprint) -> int:
    """A whole number of pages, and beyond one chunk of chunks, so that steps read full ones."""
    chunks = {
        part.chunk for layer in plan.layers for part in layer.mixers if isinstance(part, AttentionPart) and part.chunk
    }
    for chunk in chunks:
        if tokens > chunk:
            grain = lcm(grain, chunk)
    return tokens - tokens % grain
