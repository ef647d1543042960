"""Checks b, c and d of a built decoder: bytes of its cache, bytes that a step reads, largest batch, times."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from kvplan.units import MIB, format_bytes
from kvplan.verify import ladder
from kvplan.verify.live.checks import bytes_held, capacity, reads, timing
from kvplan.verify.live.checks.allocation import allocate, release
from kvplan.verify.live.checks.bytes_held import Taken
from kvplan.verify.live.checks.found import Found
from kvplan.verify.live.checks.speed import judged
from kvplan.verify.live.kernels import fused
from kvplan.verify.live.kernels.readers import Fastest
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Caching
from kvplan.verify.live.ranks import everybody, in_time
from kvplan.verify.live.rows import Layout
from kvplan.verify.options import Options, Progress
from kvplan.verify.parts import Blueprint
from kvplan.verify.predict import workspace_bytes
from kvplan.verify.verdict import OUT_OF_TIME, Row, not_run

_ROUND_UP = 2 * MIB
"""Bytes that torch's allocator rounds a large tensor up to; see kvplan.verify.live.checks.bytes_held."""
_GPU_BATCH, _CPU_BATCH = 16, 8
_SMALL_BATCH, _SMALL_TOKENS = 2, 37


def after_weights(
    known: Found, options: Options, decoder: Decoder, before: Taken, progress: Progress, deadline: float
) -> Iterator[Row]:
    """All rows but those of the weights. before: memory taken before them."""
    predicted, plan, ledger = known.kv, known.plan, decoder.build.ledger
    cuda, ranks = ledger.device.type == "cuda", decoder.build.ranks
    left = min(everybody(ranks, known.limit - ledger.taken()))
    room = left if cuda else known.pool + workspace_bytes(plan, _CPU_BATCH)
    weights = len(ledger.tensors("weights")) + len(ledger.tensors("held"))
    rounding = _ROUND_UP * (weights + _tensors_of_cache(plan)) if cuda else 0
    least = 3 * (workspace_bytes(plan, 1) + rounding) if cuda else 1
    most = ladder.limit(predicted, plan, room - rounding, _GPU_BATCH if cuda else _CPU_BATCH, least)
    progress(0.3, "comparing bytes")
    layout = Layout(options.page)
    small = Caching(1, _SMALL_TOKENS, predicted.kv, layout)
    try:
        yield from _bytes(known, decoder, Caching(_SMALL_BATCH, _SMALL_TOKENS, predicted.kv, layout))
        if most is not None:
            yield from _bytes(known, decoder, Caching(most.batch, most.tokens, predicted.kv, layout), before)
        # After resident memory was compared, because the first step leaves libraries with workspaces.
        used = yield from _used(known, decoder, small)
        if most is None:
            yield not_run("capacity", "most sequences", "sequences", "no room for a cache beside the weights")
            return
        if in_time(ranks, deadline):
            progress(0.45, f"filling {format_bytes(most.pool)} with {most.batch} sequences")
            yield from _capacity(known, decoder, most, rounding, deadline)
        else:
            yield not_run("capacity", "most sequences", "sequences", OUT_OF_TIME, most.batch)
        progress(0.6, "timing")
        if cuda:
            steps = ladder.rungs(predicted, plan, room - rounding, options.batches, options.contexts)
        else:
            steps = _on_a_cpu(known, options, left)
        if not steps:
            yield not_run("time", "steps", "s", _too_small(known, options))
            return
        for batch in (rung.batch for rung in steps if rung.batch > 1):
            if in_time(ranks, deadline):
                used |= yield from _used(known, decoder, replace(small, batch=batch))
        times = timing.time_ladder(predicted, decoder, steps, deadline, lambda what: progress(0.7, what))
        times.weights_shares = used
        known.times = times
        known.notes += times.notes
        yield from times.compared
        yield reads.timed(times.points)
        yield from judged(predicted, times, known.gpu, cuda=cuda)
    finally:
        release(decoder)


def _on_a_cpu(known: Found, options: Options, left: int) -> tuple[ladder.Rung, ...]:
    """What is timed there: small caches, because it is slow, or what was asked for, as far as the memory has room.

    left: bytes beside the weights.
    """
    predicted, plan = known.kv, known.plan
    found: list[ladder.Rung] = []
    for batch in options.batches or (1, 4):
        made, pool = workspace_bytes(plan, batch), known.pool
        if options.batches or options.contexts:  # a step of few sequences is in what is spared
            pool = max(pool, left - known.spare - max(0, made - workspace_bytes(plan, _CPU_BATCH)))
        found += ladder.rungs(predicted, plan, pool + made, (batch,), options.contexts, 3)
    return tuple(found)


def _too_small(known: Found, options: Options) -> str:
    """Why nothing is timed: what the least that was asked for takes."""
    batch, tokens = min(options.batches or (1,)), min(options.contexts or (ladder.GRAIN,))
    size = format_bytes(batch * known.kv.cache_bytes(tokens))
    return f"the memory has no room for the {size} of {batch:,} x {tokens:,} tokens: a larger --memory has, or fewer --layers"


def _bytes(known: Found, decoder: Decoder, caching: Caching, before: Taken | None = None) -> Iterator[Row]:
    """Check b at one size; with `before`, by the allocator too."""
    predicted, ledger = known.kv, decoder.build.ledger
    # A CPU's memory isn't resident before it is written.
    refused = allocate(decoder, caching, filled=before is not None and ledger.device.type == "cpu")
    if refused is not None:
        what = f"cache, {caching.batch} x {caching.tokens:,} tokens"
        yield not_run("bytes", what, "B", refused, core=True)
        return
    yield from bytes_held.caches(predicted, decoder, caching)
    if before is not None:
        cache = caching.batch * predicted.cache_bytes(caching.tokens)
        expected = ledger.taken("weights") + ledger.taken("held") + cache + ledger.taken("tables")
        yield from bytes_held.allocator(ledger, before, expected)
    release(decoder)


def _used(known: Found, decoder: Decoder, caching: Caching) -> Generator[Row, None, dict[int, float]]:
    """Cache and weights that one small step reads. Returns predicted over counted weights, by batch."""
    refused = allocate(decoder, caching)
    if refused is not None:
        yield not_run("bytes", f"a step of {caching.batch} x {caching.tokens} tokens", "B", refused)
        return {}
    counted = reads.count(decoder, timing.tokens(decoder, caching.batch), caching.tokens)
    release(decoder)
    cache, weights = reads.step(known.kv, counted, caching.tokens)
    yield from (cache, weights)
    return {caching.batch: weights.predicted / counted.weights} if weights.predicted and weights.measured else {}


def _tensors_of_cache(plan: Blueprint) -> int:
    """At most four for each mixer: keys, values and their scales."""
    return 4 * sum(len(layer.mixers) for layer in plan.layers)


def _capacity(known: Found, decoder: Decoder, most: ladder.Limit, rounding: int, deadline: float) -> Iterator[Row]:
    """Check c, with the memory limited to exactly the plan's."""
    predicted, ledger = known.kv, decoder.build.ledger
    tables = ladder.table_bytes(known.plan, most.tokens, most.batch, predicted.page)
    asked = capacity.Plan(most.batch, most.tokens, ledger.taken() + most.pool + tables)
    ids = timing.tokens(decoder, most.batch)
    reader = Fastest(ledger.device, triton=fused.uses_triton(), deadline=deadline)
    kept, ledger.limit = ledger.limit, asked.limit
    try:
        extra = workspace_bytes(known.plan, most.batch) + rounding
        yield from capacity.capacity(predicted, decoder, asked, extra, reader, ids, known.limit)
    finally:
        ledger.limit = kept
