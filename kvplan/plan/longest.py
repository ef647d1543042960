"""The longest sequence alone, or of a number at once. Each length is tried with the budget of that very length.

What an engine takes besides the cache may grow with the length (tokens of a step, an indexer's buffers, a profiling run
on whole sequences), so the cache memory of one length says nothing about another's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from kvplan.arch.curve import LONGEST
from kvplan.arch.search import largest
from kvplan.engines.base import Budget, Capacity, Refusal
from kvplan.errors import KvplanError
from kvplan.plan.request import Request


def beyond_memory(request: Request, budget: Budget) -> int:
    """Bytes by which a cache size given by hand and what stands beside it exceed a GPU; 0 if none is given.

    Such a size skips the budget, but not the limit of the GPU's memory.
    """
    if request.options.kv_memory is None:
        return 0
    return max(0, spent(request, budget) + request.options.kv_memory - request.decide(budget.memory.bytes))


def spent(request: Request, budget: Budget) -> int:
    """Bytes beside the cache at the end that decides: the most they may be, or the likely ones."""
    sizes = (budget.weights.bytes, budget.activation.bytes, budget.runtime.bytes)
    return sum(size.high if request.end == "safe" else size.likely for size in sizes)


def longest_together(request: Request) -> int:
    """Longest context at which `concurrency` sequences fit at once, exact, by bisection; 0 if there is none."""
    wanted = request.concurrency or 1
    return largest(lambda context: _sequences(request, context) >= wanted, request.context)


def longest_alone(request: Request, stated: int) -> int:
    """Longest single sequence that the engine starts with and then runs, exact; 0 if there is none.

    stated: the engine's own answer for the budget of the request's length. The search starts there, and mostly ends
    there.
    """
    if not request.engine.allocates:  # nothing that arithmetic takes depends on the length
        return stated

    @cache
    def runs(tokens: int) -> bool:
        return _sequences(request, tokens) > 0

    context, table = request.context, _table(request)
    if context <= table and runs(context):
        least, most = context, max(request.engine.longest_context(request.model) or LONGEST, context, stated)
    else:
        least, most = 0, min(context - 1, table)
    if most <= least or (not least and not stated and not runs(1)):
        return least
    return least + _nearest(lambda more: runs(least + more), most - least, stated - least)


def _nearest(holds: Callable[[int], bool], most: int, near: int) -> int:
    """The largest number up to `most` that holds, found with few calls if it is at or just below `near`."""
    near = min(max(near, 1), most)
    found = largest(holds, near)
    return found if found < near else largest(holds, most, near)


def _table(request: Request) -> int:
    """Rows of the position table; LONGEST if there is none."""
    weights, longest = request.model.weights, request.engine.longest_context(request.model)
    return LONGEST if longest is None or weights is None or weights.positions is None else longest


def _sequences(request: Request, context: int) -> int:
    """Sequences of `context` tokens that the engine admits by their own budget; 0 if it doesn't start."""
    try:
        started = request.engine.start(replace(request.setup, context=context))
        budget = started.budget()
    except KvplanError:
        return 0
    kv_bytes = request.decide(budget.kv)
    if kv_bytes <= 0 or beyond_memory(request, budget):
        return 0
    own: Capacity | Refusal = started.capacity(kv_bytes)
    return own.max_sequences if isinstance(own, Capacity) else 0
