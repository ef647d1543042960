"""Check d: how long a step takes over a ladder of batches and contexts, and whether the bytes explain it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from kvplan.hardware.gpu import Gpu
from kvplan.units import format_seconds
from kvplan.verify.ladder import Rung
from kvplan.verify.line import Line, Point, fit, held_out
from kvplan.verify.live import fused
from kvplan.verify.live.check_capacity import clean
from kvplan.verify.live.clock import copy_bandwidth, graphed, kernels, launch_floor, median, once, wait
from kvplan.verify.live.decoder import Decoder
from kvplan.verify.live.latent import Latent
from kvplan.verify.live.ledger import OUT_OF_ROOM
from kvplan.verify.live.mixer import Caching
from kvplan.verify.live.ranks import Together, everybody
from kvplan.verify.live.readers import FAST, PLAIN, Fastest
from kvplan.verify.live.rows import Layout
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import Row, at_least, not_run, reported, within

LONG = 2**20
"""Tokens in all sequences together above which reading the cache must reach KV_SHARE of a copy's speed."""
KV_SHARE, STEP_ALLOWED, CROSSOVER_ALLOWED = 0.85, 0.10, 0.25
BOUND_BY_MEMORY = 0.8
"""Share of a step's predicted time that reading takes from which on the step counts as bound by memory."""
_LEAST_POINTS = 2
_POINT_S = 0.3
"""About how long one point is repeated."""
_CPU = "no claim is made about a CPU's speed"
_NO_LINE = "no line: no batch was timed at two lengths, or its steps took no longer with more cache"


@dataclass(slots=True)
class Times:
    """Everything that was timed, in bytes per second and seconds; None for what nobody could measure."""

    copy: float
    floor_s: float | None = None
    kernels: int | None = None
    graphs: bool = True
    points: list[Point] = field(default_factory=list)
    line: Line | None = None
    readers: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def overhead_s(self) -> float | None:
        """What launching a step's kernels takes, whatever they read."""
        return None if self.kernels is None or self.floor_s is None else self.kernels * self.floor_s

    @property
    def launches_s(self) -> float:
        """The same to take off or add; nothing where it is unknown."""
        return self.overhead_s or 0.0

    @property
    def readers_are_fast(self) -> bool:
        """Whether every cache was read by a kernel that is made for it, none by plain torch."""
        return bool(self.readers) and all(name.startswith(FAST) for name in self.readers.values())

    @property
    def weight_bytes_per_s(self) -> float | None:
        """Speed at which the weights are read, from the line's first intercept; None when they are too few to tell."""
        if self.line is None or not self.points[0].weight_bytes:
            return None
        batch, intercept = self.line.intercepts[0]
        size = next(point.weight_bytes for point in self.points if point.batch == batch)
        left = intercept - self.launches_s
        return size / left if left > 0 else None

    def predicted_s(self, point: Point) -> float:
        """Bytes over the copy's bandwidth, plus launches."""
        return (point.weight_bytes + point.kv_bytes) / self.copy + self.launches_s


def time_ladder(
    predicted: Predicted, decoder: Decoder, ladder: Sequence[Rung], deadline: float, progress: Callable[[str], None]
) -> Times:
    """Median step times over the ladder, until the deadline (time.monotonic) is near."""
    ledger, device = decoder.build.ledger, decoder.build.ledger.device
    room = (ledger.limit or 2**40) - ledger.taken()
    times = Times(copy_bandwidth(device, room // 2), launch_floor(device))
    reader = Fastest(device, triton=fused.uses_triton(), deadline=deadline)
    for rung in ladder:
        if not _everybody_has_time(decoder, deadline, times, len(rung.contexts)):
            break
        progress(f"timing a batch of {rung.batch}")
        try:
            decoder.allocate(Caching(rung.batch, rung.contexts[-1], predicted.kv, Layout(predicted.page)))
            decoder.fill()
            for context in rung.contexts:
                if not _everybody_has_time(decoder, deadline, times, 1):
                    break
                times.points.append(_time(predicted, decoder, rung.batch, context, reader, times))
        except OUT_OF_ROOM:
            times.notes.append(f"a batch of {rung.batch} ran out of memory and was left out")
        finally:
            clean(decoder)
    times.line = fit(times.points)
    times.readers = reader.chosen
    if any(isinstance(one, Latent) and one.indexer is not None for one in decoder.mixers):
        times.readers["indexer"] = PLAIN
    wait(device)
    return times


def _everybody_has_time(decoder: Decoder, deadline: float, times: Times, points: int) -> bool:
    """Whether all ranks can still afford so many points; the first two, which a line needs, are always timed."""
    if len(times.points) < _LEAST_POINTS:
        return True
    spent = max(point.seconds for point in times.points)
    mine = time.monotonic() + 25 * spent * points < deadline
    ranks = decoder.build.ranks
    return all(everybody(ranks, mine)) if isinstance(ranks, Together) else mine


def _time(predicted: Predicted, decoder: Decoder, batch: int, context: int, reader: Fastest, times: Times) -> Point:
    device = decoder.build.ledger.device
    ids = tokens(decoder, batch)
    at = decoder.at(context - 1, reader)

    def work() -> object:
        at.chosen = None
        return decoder.step(ids, at)

    work()
    asked = at.cache_bytes
    wait(device)
    first = once(work, device)
    if not times.points:
        times.kernels = kernels(work, device)
    run, captured = graphed(work, device)
    times.graphs = times.graphs and captured
    # The number of repeats must be the same on all ranks, or one would wait for another for ever.
    repeats = max(everybody(decoder.build.ranks, max(3, min(15, int(_POINT_S / max(first, 1e-4))))))  # type: ignore[arg-type]
    seconds = median(run, device, repeats, warm=1)
    touched = [experts.distinct() for experts in decoder.experts]
    mean = sum(touched) / len(touched) if touched else None
    del run
    reads = batch * predicted.reads(context)
    return Point(batch, context, predicted.weights_read(batch) or 0, reads, seconds, mean, asked)


def tokens(decoder: Decoder, batch: int) -> torch.Tensor:
    """Token ids [batch], or vectors where there is no embedding."""
    build, plan = decoder.build, decoder.plan
    if decoder.embedding is None:
        return torch.randn(
            (batch, plan.hidden), generator=build.ledger.random, device=build.ledger.device, dtype=build.dtype
        )
    rows = plan.vocab * build.ranks.size
    return torch.randint(0, rows, (batch,), generator=build.ledger.random, device=build.ledger.device)


def judged(predicted: Predicted, times: Times, gpu: Gpu | None, *, cuda: bool) -> Iterator[Row]:
    """Rows of the times: bandwidths, each step, the crossover. gpu: its record, where kvplan has one."""
    datasheet = None if gpu is None else gpu.bandwidth.value
    yield reported(
        "time", "copy, read and written", "B/s", datasheet, times.copy, "every other bandwidth is a share of this one"
    )
    yield _cache_share(times, known=cuda and gpu is not None)
    yield _weight_share(times)
    for point in times.points:
        yield _step(times, point, cuda=cuda)
    if datasheet is not None:
        yield _bound(predicted, times, datasheet)
    yield _crossover(predicted, times, cuda=cuda)
    yield from _experts(predicted, times)


def _cache_share(times: Times, *, known: bool) -> Row:
    what = "reading the cache, share of the copy"
    if times.line is None:
        return not_run("time", what, "share", _NO_LINE)
    share = times.line.kv_bytes_per_s / times.copy
    most = max(point.batch * point.context for point in times.points)
    if not known:
        return reported("time", what, "share", None, share, "claimed for GPUs that kvplan knows")
    if not times.readers_are_fast:
        because = "read by plain torch, no kernel here reads this format and shape: says nothing of the cache"
        return reported("time", what, "share", None, share, because)
    if most <= LONG:
        return reported("time", what, "share", None, share, f"claimed above {LONG:,} tokens in all; here {most:,}")
    return at_least("time", what, "share", KV_SHARE, share, f"at least {KV_SHARE} above {LONG:,} tokens in all")


def _weight_share(times: Times) -> Row:
    what = "reading the weights, share of the copy"
    speed = times.weight_bytes_per_s
    if times.line is None or speed is None:
        return not_run("time", what, "share", f"{_NO_LINE}, or too little of weights to tell apart")
    launches = "nobody counted the launches" if times.overhead_s is None else "launches taken off"
    because = f"from the line at batch {times.line.intercepts[0][0]}, {launches}"
    return reported("time", what, "share", None, speed / times.copy, because)


def _step(times: Times, point: Point, *, cuda: bool) -> Row:
    """A step against the line through all other steps: bandwidths measured in this run, but not on this step."""
    what = f"step of {point.batch} x {point.context:,} tokens"
    at_copy = times.predicted_s(point)
    if not cuda:
        return reported("time", what, "s", at_copy, point.seconds, _CPU)
    if not times.graphs:
        return reported(
            "time", what, "s", at_copy, point.seconds, "no graph could be captured: Python launches its kernels"
        )
    if times.overhead_s is None:
        return reported("time", what, "s", at_copy, point.seconds, "nobody could count its launches")
    if not point.weight_bytes or at_copy - times.overhead_s < BOUND_BY_MEMORY * at_copy:
        return reported("time", what, "s", at_copy, point.seconds, "launches, not memory, take most of it")
    expected = held_out(times.points, point)
    if expected is None:
        return reported("time", what, "s", at_copy, point.seconds, "too few other steps to predict it from")
    because = (
        f"the line through the other steps, within {STEP_ALLOWED:.0%}; at the copy's speed {format_seconds(at_copy)}"
    )
    return within("time", what, "s", expected, point.seconds, STEP_ALLOWED * expected, because)


def _bound(predicted: Predicted, times: Times, datasheet: int) -> Row:
    """No step may beat the datasheet: if one did, bytes were predicted that nobody read."""
    least = min(
        point.seconds * datasheet / (predicted.weights_read_at_least(point.batch) + point.kv_bytes)
        for point in times.points
    )
    because = "no step is faster than its bytes at the datasheet's bandwidth"
    return at_least("time", "fastest step over the datasheet's bound", "share", 1.0, least, because)


def _crossover(predicted: Predicted, times: Times, *, cuda: bool) -> Row:
    what = "context at which the cache is read longer than the weights"
    if times.line is None:
        return not_run("time", what, "tokens", _NO_LINE)
    batch = max(times.line.intercepts)[0]
    by_bytes = predicted.crossover(batch)
    what = f"{what}, batch {batch}"
    found = _crossing(predicted, times, batch, times.line.intercept(batch))
    if by_bytes is None or found is None:
        because = "the cache never outgrows the weights, or they are too small to see"
        return not_run("time", what, "tokens", because, by_bytes)
    own = [point for point in times.points if point.batch == batch]
    expected = _by_another_batch(predicted, times, batch)
    if not cuda:
        because = _CPU
    elif expected is None:
        because = "by bytes alone: no other batch says how fast weights are read"
    elif not min(point.context for point in own) <= expected <= max(point.context for point in own):
        because = "by bytes alone: outside of the contexts that were timed"
    elif any(point.experts is not None for point in own):
        because = "by bytes alone: how fast experts are read changes with the batch"
    else:
        because = f"by the speeds at the other batches within {CROSSOVER_ALLOWED:.0%}; by bytes alone {by_bytes:,}"
        return within("time", what, "tokens", expected, found, CROSSOVER_ALLOWED * expected, because)
    return reported("time", what, "tokens", by_bytes, found, because)


def _crossing(predicted: Predicted, times: Times, batch: int, intercept: float) -> int | None:
    """Context at which reading the cache takes as long as the intercept, launches taken off; None if those are all of it."""
    left = intercept - times.launches_s
    if times.line is None or left <= 0:
        return None
    return predicted.reads_curve.tokens_that_fit(int(left * times.line.kv_bytes_per_s) // batch) + 1


def _by_another_batch(predicted: Predicted, times: Times, batch: int) -> int | None:
    """The same from the weights' bytes and the speed at which the next smaller batch read them."""
    line, weights = times.line, predicted.weights_read(batch)
    smaller = [one for one in line.intercepts if one[0] < batch] if line is not None else []
    if not smaller or not weights:
        return None
    other, intercept = max(smaller)
    share = weights / (predicted.weights_read(other) or weights)
    return _crossing(predicted, times, batch, times.launches_s + share * (intercept - times.launches_s))


def _experts(predicted: Predicted, times: Times) -> Iterator[Row]:
    """Distinct experts that a step touched, beside what uniform routing would make of them."""
    for point in {point.batch: point for point in times.points}.values():
        expected = predicted.distinct_experts(point.batch)
        if point.experts is not None and expected is not None:
            what = f"distinct experts in a layer, batch {point.batch}"
            because = "random weights route almost uniformly; trained ones touch fewer"
            yield reported("time", what, "experts", expected, point.experts, because)
