"""Questions asked backwards: the share of memory that a number of requests needs.

    utilization = (weights + activation + runtime + blocks x bytes of a block) / memory

The longest request that fits, vLLM's "estimated maximum model length", is part of every capacity and refusal.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from kvplan.engines.vllm.blocks.allocate import Plan, request_blocks
from kvplan.engines.vllm.started import Started
from kvplan.errors import UsageError
from kvplan.units import format_bytes

STEP = 1000
"""Steps that a utilization is rounded up to, of 1."""


def cache_bytes(made: Plan, concurrency: int) -> int:
    """Bytes of cache on each GPU with which `concurrency` requests of the longest length fit at once, and vLLM starts."""
    blocks = concurrency * request_blocks(made)
    withheld = max(made.stages) if made.rules.null_block else 0
    first = made.layout.blocks(made.settings.demand) * max(made.checked) + withheld
    return max(blocks * max(made.stages), first)


def utilization(started: Started, concurrency: int, *, likely: bool = False) -> float:
    """The least gpu_memory_utilization with which `concurrency` requests of the setup's length fit at once.

    likely: by the likely overheads instead of the most there may be.

    Raises: UsageError if all the memory isn't enough or max_num_seqs or max_num_active_seqs stands in the way.
    """
    setup, made = started.setup, started.made
    replica = ceil(Fraction(concurrency, setup.parallel.dp))
    if replica > made.settings.sequences:
        raise UsageError(
            f"{concurrency:,} requests at once are more than max_num_seqs, {made.settings.sequences:,} a replica",
            hint=f"--max-num-seqs {replica}",
        )
    if replica > made.settings.running:
        raise UsageError(
            f"{concurrency:,} requests at once are more than max_num_active_seqs, {made.settings.running:,} a replica",
            hint=f"vLLM's --max-num-active-seqs {replica}",
        )
    budget = started.budget()
    spent = sum(
        term.bytes.likely if likely else term.bytes.high for term in (budget.weights, budget.activation, budget.runtime)
    )
    needed = spent + cache_bytes(made, replica)
    found = ceil(Fraction(needed * STEP, budget.memory.bytes.likely))
    if found >= STEP:
        raise UsageError(
            f"{concurrency:,} requests of {setup.context:,} tokens need {format_bytes(needed)} on each GPU",
            cause=f"it has {format_bytes(budget.memory.bytes.likely)}",
            hint="more GPUs (--tp), a smaller cache format (--kv-dtype fp8) or a shorter --ctx",
        )
    return found / STEP
