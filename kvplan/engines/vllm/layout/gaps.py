"""Memory that an allocator can't hand out again: ends of segments, and rooms of tensors that were replaced by larger ones."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from kvplan.units import MIB

OWN_SEGMENT = 10 * MIB
"""Tensors from here on are asked of the device one by one; smaller ones share segments."""
SEGMENT = 2 * MIB
"""What a segment's size is a multiple of."""
LEAST_SPLIT = MIB
"""A rest of no more than this stays with the tensor."""
LARGE = 20 * MIB
"""Segments from here on are never split where vLLM loads weights with max_split_size_mb, as it does since 0.21."""


def ends(sizes: Iterable[int], *, unsplit: bool) -> int:
    """Bytes that count as allocated behind tensors of these sizes. unsplit: whether large segments are never split.

    Source: PyTorch c10/cuda/CUDACachingAllocator.cpp, get_allocation_size, should_split; vLLM 0.21 v1/worker/gpu_worker.py
    _scoped_allocator_max_split.
    """
    found = ((size, _whole(size) - size) for size in sizes if size >= OWN_SEGMENT)
    return sum(end for size, end in found if end <= LEAST_SPLIT or (unsplit and size >= LARGE))


class Replaced(NamedTuple):
    """Bytes of a tensor as it was loaded, and as its copy."""

    before: int
    after: int


def gaps(replaced: Iterable[Replaced]) -> int:
    """Bytes on the device that no tensor uses once every tensor was replaced, in this order, and its room freed.

    Each copy takes the smallest free room that it fits in, or a segment of its own; then wholly free segments are given
    back; then the original is freed. A segment that a smaller copy moved into stays, with what is left of it.

    Source: PyTorch c10/cuda/CUDACachingAllocator.cpp, get_free_block, should_split, get_allocation_size, release_cached_blocks.
    """
    return _gaps(tuple(each for each in replaced if min(each) >= OWN_SEGMENT))


@cache
def _gaps(replaced: tuple[Replaced, ...]) -> int:
    lost = 0
    rests: list[int] = []
    freed: int | None = None  # the last original: a whole segment, until a copy moves in or it is given back
    for before, after in replaced:
        room = [size for size in (*rests, freed or 0) if size >= after]
        if room:
            found = min(room)
            if found in rests:
                rests.remove(found)
            rests.append(found - after)  # what is too little to be split off is too little for a copy too
        else:
            lost += _whole(after) - after
        freed = _whole(before)
    return lost + sum(rests)


def _whole(size: int) -> int:
    return -(-size // SEGMENT) * SEGMENT
