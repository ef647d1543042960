"""Check d, judging: whether the bytes explain the times, at speeds that no prediction is part of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.hardware.gpu import Gpu
from kvplan.units import format_seconds
from kvplan.verify.line import OWN_POINTS, Line, Point, fit, held_out
from kvplan.verify.live.checks.timing import Times
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import Row, at_least, at_most, not_run, reported, within

LONG = 2**20
"""Tokens of all sequences from which reading the cache must reach KV_SHARE of a copy's speed."""
KV_SHARE, STEP_ALLOWED, CROSSOVER_ALLOWED = 0.85, 0.10, 0.25
CROSSOVER_REFUTED = 1.6
"""Factor between a crossover and its place by another batch's speeds that kernels can't explain.

Batches have kernels of their own, which read weights or caches up to a third faster or slower, and a crossover is a
quotient of both.
"""
BOUND_BY_MEMORY = 0.8
"""Share of a step's predicted time from which reading counts as its bound."""
_BEYOND_CACHES = 2**30
"""Bytes of a step that no GPU's own caches keep until the next step."""
_HELD = "a GPU's own caches may hold so little"
_CPU = "no claim is made about a CPU's speed"
_NO_LINE = "no line: no batch was timed at two lengths, or its steps took no longer with more cache"


def judged(predicted: Predicted, times: Times, gpu: Gpu | None, *, cuda: bool) -> Iterator[Row]:
    """Rows for bandwidths, each step and the crossover. gpu: its record, None if kvplan has none."""
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
        yield _cache_bound(times, datasheet)
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
    if share < KV_SHARE:
        because = f"below {KV_SHARE} above {LONG:,} tokens in all: a kernel that is slow here says nothing of the bytes"
        return reported("time", what, "share", KV_SHARE, share, because)
    return at_least("time", what, "share", KV_SHARE, share, f"at least {KV_SHARE} above {LONG:,} tokens in all")


def _weight_share(times: Times) -> Row:
    what = "reading the weights, share of the copy"
    speed = times.weight_bytes_per_s
    if times.line is None or speed is None:
        return not_run("time", what, "share", f"{_NO_LINE}, or too little of weights to tell apart")
    launches = "launches not counted" if times.overhead_s is None else "launches taken off"
    because = f"from the line at batch {times.line.intercepts[0][0]}, {launches}"
    return reported("time", what, "share", None, speed / times.copy, because)


def _step(times: Times, point: Point, *, cuda: bool) -> Row:
    """Predicted bytes of a step at the speeds of other steps, which are of counted bytes, against its time."""
    what = f"step of {point.batch} x {point.context:,} tokens"
    at_copy = times.predicted_s(point)
    reason = _why_unjudged(times, point, at_copy, cuda=cuda)
    line = held_out(times.points, point) if reason is None else None
    if line is None:
        reason = reason or f"fewer than {OWN_POINTS} other steps of its batch make a line to predict it from"
        return reported("time", what, "s", at_copy, point.seconds, reason)
    weights = times.launches_s + (line.intercept(point.batch) - times.launches_s) * times.weights_shares.get(
        point.batch, 1.0
    )
    expected = weights + point.kv_bytes / line.kv_bytes_per_s
    because = (
        f"its bytes at the speeds of its batch's other steps, within {STEP_ALLOWED:.0%}; "
        f"at the copy's speed {format_seconds(at_copy)}"
    )
    return within("time", what, "s", expected, point.seconds, STEP_ALLOWED * expected, because)


def _why_unjudged(times: Times, point: Point, at_copy: float, *, cuda: bool) -> str | None:
    """Why a step's time says nothing about its bytes; None if it does."""
    launches = times.overhead_s
    unclaimed = {
        _CPU: not cuda,
        "no graph could be captured: Python launches its kernels": not times.graphs,
        "its launches couldn't be counted": launches is None,
        "launches, not memory, take most of it": not point.weight_bytes
        or at_copy - (launches or 0.0) < BOUND_BY_MEMORY * at_copy,
        "it ends within a chunk, and predictions are of whole ones": not point.whole,
    }
    return next((reason for reason, holds in unclaimed.items() if holds), None)


def _cache_bound(times: Times, datasheet: int) -> Row:
    """No cache is read faster than the memory is. Otherwise the step didn't read what it asked for."""
    what = "reading the cache, share of the datasheet"
    if times.line is None:
        return not_run("time", what, "share", _NO_LINE)
    share = times.line.kv_bytes_per_s / datasheet
    if max(point.asked_bytes for point in times.points) < _BEYOND_CACHES:
        return reported("time", what, "share", 1.0, share, _HELD)
    return at_most("time", what, "share", 1.0, share, "memory is read no faster than the datasheet says")


def _bound(predicted: Predicted, times: Times, datasheet: int) -> Row:
    """No step beats the datasheet. Otherwise bytes were predicted that were never read."""
    what = "fastest step over the datasheet's bound"
    sizes = [(predicted.weights_read_at_least(point.batch) + point.kv_bytes, point) for point in times.points]
    beyond = [(size, point) for size, point in sizes if size >= _BEYOND_CACHES]
    least = min(point.seconds * datasheet / size for size, point in beyond or sizes)
    if not beyond:
        return reported("time", what, "share", 1.0, least, _HELD)
    because = "no step is faster than its bytes at the datasheet's bandwidth"
    return at_least("time", what, "share", 1.0, least, because)


def _crossover(predicted: Predicted, times: Times, *, cuda: bool) -> Row:
    what = "context at which the cache is read longer than the weights"
    if times.line is None:
        return not_run("time", what, "tokens", _NO_LINE)
    batch = max(times.line.intercepts)[0]
    by_bytes = predicted.crossover(batch)
    what = f"{what}, batch {batch}"
    found = _crossing(predicted, times, batch, _own_line(times, batch).intercept(batch))
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
        return _found(what, expected, found, by_bytes)
    return reported("time", what, "tokens", by_bytes, found, because)


def _found(what: str, expected: int, found: int, by_bytes: int) -> Row:
    """A crossover against its place by the next smaller batch's speeds; refuted only if kernels can't explain the gap."""
    also = f"by bytes alone {by_bytes:,}"
    near = within(
        "time", what, "tokens", expected, found, CROSSOVER_ALLOWED * expected,
        f"by the speeds at the other batches within {CROSSOVER_ALLOWED:.0%}; {also}",
    )  # fmt: skip
    if near.verdict == "confirmed":
        return near
    if max(found / expected, expected / found) > CROSSOVER_REFUTED:
        return replace(near, rule=f"further off than kernels explain, a factor of {CROSSOVER_REFUTED}; {also}")
    because = f"batches have kernels of their own, and less than a factor of {CROSSOVER_REFUTED} may be theirs; {also}"
    return reported("time", what, "tokens", expected, found, because)


def _crossing(predicted: Predicted, times: Times, batch: int, intercept: float) -> int | None:
    """Context at which the cache takes as long as the intercept less the launches; None if the launches are all of it."""
    left = intercept - times.launches_s
    if left <= 0:
        return None
    return predicted.reads_curve.tokens_that_fit(int(left * _own_line(times, batch).kv_bytes_per_s) // batch) + 1


def _own_line(times: Times, batch: int) -> Line:
    """The line of one batch's steps if they make one, else of all. Another batch's kernels have another slope."""
    own = fit([point for point in times.points if point.batch == batch])
    assert times.line is not None  # noqa: S101 - whoever asks has looked
    return own or times.line


def _by_another_batch(predicted: Predicted, times: Times, batch: int) -> int | None:
    """The same from the bytes of weights at the speed at which the next smaller batch read them."""
    weights = predicted.weights_read(batch)
    other = max((point.batch for point in times.points if point.batch < batch), default=None)
    if other is None or not weights:
        return None
    intercept = _own_line(times, other).intercept(other)
    share = weights / (predicted.weights_read(other) or weights)
    return _crossing(predicted, times, batch, times.launches_s + share * (intercept - times.launches_s))


def _experts(predicted: Predicted, times: Times) -> Iterator[Row]:
    """Distinct experts that a step used, beside the number expected if routing is uniform."""
    for point in {point.batch: point for point in times.points}.values():
        expected = predicted.distinct_experts(point.batch)
        if point.experts is not None and expected is not None:
            what = f"distinct experts in a layer, batch {point.batch}"
            because = "random weights route almost uniformly; trained ones touch fewer"
            yield reported("time", what, "experts", expected, point.experts, because)
