"""The longest sequences: alone, and so many together. Each length is asked with the memory that it leaves for the cache.

What an engine takes besides the cache may grow with the length: the tokens of a step, an indexer's room, a start-up profile
of whole sequences. So the cache bytes of one length say nothing of another's.
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
    """Bytes by which a pool given by hand and what stands beside it are more than a GPU has; none without such a pool.

    Such a pool skips the budget, not the memory that the GPU has.
    """
    if request.options.kv_memory is None:
        return 0
    return max(0, spent(request, budget) + request.options.kv_memory - request.decide(budget.memory.bytes))


def spent(request: Request, budget: Budget) -> int:
    """Bytes beside the cache that the deciding end counts with: all that they may be, or what is likely."""
    sizes = (budget.weights.bytes, budget.activation.bytes, budget.runtime.bytes)
    return sum(size.high if request.end == "safe" else size.likely for size in sizes)


def longest_together(request: Request) -> int:
    """Longest context at which `concurrency` sequences fit at once, exact, by bisection; 0 if none does."""
    wanted = request.concurrency or 1
    return largest(lambda context: _sequences(request, context) >= wanted, request.context)


def longest_alone(request: Request, stated: int) -> int:
    """Longest single sequence with which the engine starts and which it then runs, exact; 0 if there is none.

    stated: the engine's own word, of the memory that the request's length leaves: where to look, and mostly the answer.
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
    """The largest that holds, by few questions where it is `near`; one that is too large bounds it."""
    near = min(max(near, 1), most)
    found = largest(holds, near)
    return found if found < near else largest(holds, most, near)


def _table(request: Request) -> int:
    """Tokens that positions are looked up for; no end where they aren't looked up."""
    weights, longest = request.model.weights, request.engine.longest_context(request.model)
    return LONGEST if longest is None or weights is None or weights.positions is None else longest


def _sequences(request: Request, context: int) -> int:
    """Sequences of `context` tokens that the engine admits, with the memory of the whole plan; 0 where it doesn't start."""
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
