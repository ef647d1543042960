"""Check d, measuring: the time of a step over a ladder of batches and contexts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from kvplan.verify import ladder
from kvplan.verify.ladder import Rung
from kvplan.verify.line import Line, Point, fit
from kvplan.verify.live.checks.allocation import allocate, release
from kvplan.verify.live.checks.readers import Comparing
from kvplan.verify.live.clock import copy_bandwidth, graphed, kernels, launch_floor, median, once, wait
from kvplan.verify.live.kernels import fused
from kvplan.verify.live.kernels.readers import FAST, PLAIN, Fastest
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.latent import Latent
from kvplan.verify.live.layers.mixer import Caching
from kvplan.verify.live.ledger import OUT_OF_ROOM
from kvplan.verify.live.ranks import everybody, in_time
from kvplan.verify.live.rows import Layout
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import OUT_OF_TIME, Row, not_run

_LEAST_POINTS = 2
_STEPS = {"cpu": 8, "cuda": 25}
"""Most steps that one point takes: choosing a reader, comparing, warming up, capturing a graph, repeating."""
_POINT_S = 0.3
"""Seconds for repeating one point, roughly."""


@dataclass(slots=True)
class Times:
    """All measured times and speeds (bytes/s); None for what couldn't be measured.

    compared: what readers answered at the longest contexts. weights_shares: predicted bytes of weights over those
    counted in a step, by batch.
    """

    copy: float
    floor_s: float | None = None
    kernels: int | None = None
    graphs: bool = True
    points: list[Point] = field(default_factory=list)
    line: Line | None = None
    readers: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    compared: list[Row] = field(default_factory=list)
    weights_shares: dict[int, float] = field(default_factory=dict)

    @property
    def overhead_s(self) -> float | None:
        """Seconds to launch a step's kernels, whatever they read."""
        return None if self.kernels is None or self.floor_s is None else self.kernels * self.floor_s

    @property
    def launches_s(self) -> float:
        """The same, or 0 if it is unknown."""
        return self.overhead_s or 0.0

    @property
    def readers_are_fast(self) -> bool:
        """Whether kernels made for it read every cache, and plain torch none."""
        return bool(self.readers) and all(name.startswith(FAST) for name in self.readers.values())

    @property
    def weight_bytes_per_s(self) -> float | None:
        """Speed of reading the weights, from the line's first intercept; None if they are too few to tell."""
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
    predicted: Predicted, decoder: Decoder, rungs: Sequence[Rung], deadline: float, progress: Callable[[str], None]
) -> Times:
    """Median step times over the ladder, until `deadline` (time.monotonic) is near."""
    ledger, device = decoder.build.ledger, decoder.build.ledger.device
    room = (ledger.limit or 2**40) - ledger.taken()
    times = Times(copy_bandwidth(device, room // 2), launch_floor(device))
    reader = Fastest(device, triton=fused.uses_triton(), deadline=deadline)
    for rung in rungs:
        if not _everybody_has_time(decoder, deadline, times, len(rung.contexts)):
            break
        progress(f"timing a batch of {rung.batch}")
        left_out = f"a batch of {rung.batch} ran out of memory and was left out"
        refused = allocate(decoder, Caching(rung.batch, rung.contexts[-1], predicted.kv, Layout(predicted.page)))
        if refused is not None:
            times.notes.append(f"{left_out}: {refused}")
            continue
        try:
            # The longest context first, so that the readers chosen are the best ones for it.
            times.compared += _compared(decoder, rung, reader)
            for context in rung.contexts:
                if not _everybody_has_time(decoder, deadline, times, 1):
                    break
                times.points.append(_time(predicted, decoder, rung.batch, context, reader, times))
        except OUT_OF_ROOM:
            if decoder.build.ranks.size > 1:
                raise  # the other ranks are in the middle of a step, and wait
            times.notes.append(left_out)
        finally:
            release(decoder)
    times.line = fit(times.points)
    times.readers = reader.chosen
    if any(isinstance(one, Latent) and one.indexer is not None for one in decoder.mixers):
        times.readers["indexer"] = PLAIN
    wait(device)
    return times


def _compared(decoder: Decoder, rung: Rung, reader: Fastest) -> list[Row]:
    """What the step of the longest context reads, against plain arithmetic."""
    ranks, what = decoder.build.ranks, f"reading {rung.batch} x {rung.contexts[-1]:,} tokens"
    if decoder.build.ledger.device.type == "cpu" and not in_time(ranks, reader.deadline):
        return [not_run("recompute", what, "difference", OUT_OF_TIME)]
    comparing = Comparing(reader)
    try:
        decoder.step(tokens(decoder, rung.batch), decoder.at(rung.contexts[-1] - 1, comparing))
    except OUT_OF_ROOM as error:
        if ranks.size > 1:
            raise  # the other ranks are in the middle of the step, and wait
        return [not_run("recompute", what, "difference", f"no memory for it: {str(error).split('. ')[0]}")]
    return list(comparing.rows())


def _everybody_has_time(decoder: Decoder, deadline: float, times: Times, points: int) -> bool:
    """Whether all ranks have time for that many points. The first two, which a line needs, are always timed."""
    if len(times.points) < _LEAST_POINTS:
        return True
    spent = max(point.seconds for point in times.points)
    each = _STEPS[decoder.build.ledger.device.type]
    mine = time.monotonic() + each * spent * points < deadline
    return all(everybody(decoder.build.ranks, mine))


_STEPS_OF_A_POINT = 5
"""Least steps of a point besides the first."""


def _time(predicted: Predicted, decoder: Decoder, batch: int, context: int, reader: Fastest, times: Times) -> Point:
    device, ranks = decoder.build.ledger.device, decoder.build.ranks
    ids = tokens(decoder, batch)
    at = decoder.at(context - 1, reader)

    def work() -> object:
        at.chosen = None
        return decoder.step(ids, at)

    seconds = once(work, device)
    asked = at.cache_bytes
    # Nothing is claimed about a CPU's speed, so its first step will do. A GPU's first step compiles kernels; the next are quick.
    if device.type == "cuda" or in_time(ranks, reader.deadline - _STEPS_OF_A_POINT * seconds):
        first = once(work, device)
        if not times.points:
            times.kernels = kernels(work, device)
        run, captured = graphed(work, device) if decoder.can_be_captured else (work, False)
        times.graphs = times.graphs and captured
        # The number of repeats must be the same on all ranks, or one would wait for another for ever.
        repeats = max(everybody(ranks, max(3, min(15, int(_POINT_S / max(first, 1e-4))))))
        seconds = median(run, device, repeats, warm=1)
        del run
    else:
        times.graphs = False
    touched = [experts.distinct() for experts in decoder.experts]
    mean = sum(touched) / len(touched) if touched else None
    reads, whole = batch * predicted.reads(context), ladder.whole(decoder.plan, context)
    return Point(batch, context, predicted.weights_read(batch) or 0, reads, asked, seconds, mean, whole)


def tokens(decoder: Decoder, batch: int) -> torch.Tensor:
    """Token ids [batch], or vectors if there is no embedding."""
    build, plan = decoder.build, decoder.plan
    if decoder.embedding is None:
        return torch.randn(
            (batch, plan.hidden), generator=build.ledger.random, device=build.ledger.device, dtype=build.dtype
        )
    rows = plan.vocab * build.ranks.size
    return torch.randint(0, rows, (batch,), generator=build.ledger.random, device=build.ledger.device)
