"""Questions asked backwards: the share of memory that a number of requests needs.

    utilization = (weights + activation + runtime + blocks x bytes of a block) / memory

The longest request that fits, vLLM's "estimated maximum model length", is part of every capacity and refusal.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.engines.vllm.blocks.allocate import Plan, request_blocks
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import UsageError
from kvplan.hardware.gpu import Gpu
from kvplan.units import format_bytes

STEP = 1000
"""Steps that a utilization is rounded up to, of 1."""


def cache_bytes(made: Plan, concurrency: int) -> int:
    """Bytes of cache on each GPU with which `concurrency` requests of the longest length fit at once, and vLLM starts."""
    blocks = concurrency * request_blocks(made)
    first = made.layout.blocks(made.settings.demand) + made.rules.null_block
    return max(blocks, first) * max(made.stages)


def utilization(
    engine: Vllm,
    model: Model,
    gpu: Gpu,
    parallel: Parallel,
    kv: KvFormat,
    options: Options,
    context: int,
    concurrency: int,
    *,
    likely: bool = False,
) -> float:
    """The least gpu_memory_utilization with which `concurrency` requests of `context` tokens fit at once.

    likely: by the likely overheads instead of the most there may be.

    Raises: UsageError if all the memory isn't enough or max_num_seqs stands in the way; CannotSplit, Unsupported.
    """
    made = engine.plan(model, gpu, parallel, kv, options, context)
    replica = ceil(Fraction(concurrency, parallel.dp))
    if replica > made.settings.sequences:
        raise UsageError(
            f"{concurrency:,} requests at once are more than max_num_seqs, {made.settings.sequences:,} a replica",
            hint=f"--max-num-seqs {replica}",
        )
    budget = engine.budget(model, gpu, parallel, options, context)
    spent = sum(
        term.bytes.likely if likely else term.bytes.high for term in (budget.weights, budget.activation, budget.runtime)
    )
    needed = spent + cache_bytes(made, replica)
    found = ceil(Fraction(needed * STEP, gpu.memory.value))
    if found >= STEP:
        raise UsageError(
            f"{concurrency:,} requests of {context:,} tokens need {format_bytes(needed)} on each GPU",
            cause=f"it has {format_bytes(gpu.memory.value)}",
            hint="more GPUs (--tp), a smaller cache format (--kv-dtype fp8) or a shorter --ctx",
        )
    return found / STEP
