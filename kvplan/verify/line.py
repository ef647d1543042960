"""The line through step times: the cost of a byte of cache, and of a step that reads none. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One measured step of `batch` sequences of `context` tokens: bytes that it reads, and its median time.

    weight_bytes, kv_bytes: predicted. asked_bytes: of cache, counted in the step itself. experts: distinct ones used.
    whole: whether the prediction applies, because a step that ends within a chunk reads less.
    """

    batch: int
    context: int
    weight_bytes: int
    kv_bytes: int
    asked_bytes: int
    seconds: float
    experts: float | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """seconds = intercept(batch) + counted bytes of cache / kv_bytes_per_s."""

    kv_bytes_per_s: float
    intercepts: tuple[tuple[int, float], ...]

    def intercept(self, batch: int) -> float:
        """Seconds of a step of `batch` sequences that reads no cache: weights and overhead."""
        return dict(self.intercepts)[batch]


OWN_POINTS = 3
"""Least number of other steps of a batch for a line of their own."""


def held_out(points: Sequence[Point], left_out: Point) -> Line | None:
    """The line through the other steps of the same batch; None if there are too few, or they make no line.

    Other batches don't count, because they use other kernels at other speeds.
    """
    own = [point for point in points if point is not left_out and point.batch == left_out.batch]
    return fit(own) if len(own) >= OWN_POINTS else None


def fit(points: Sequence[Point]) -> Line | None:
    """Least squares with one slope for all batches and one intercept for each.

    It uses counted bytes, so that no prediction is part of the speed. None if no batch was measured with two sizes of
    cache, or if time doesn't grow with the cache.
    """
    batches: dict[int, list[Point]] = {}
    for point in points:
        batches.setdefault(point.batch, []).append(point)
    across = along = 0.0
    means: dict[int, tuple[float, float]] = {}
    for batch, group in batches.items():
        size = sum(point.asked_bytes for point in group) / len(group)
        time = sum(point.seconds for point in group) / len(group)
        means[batch] = (size, time)
        across += sum((point.asked_bytes - size) * (point.seconds - time) for point in group)
        along += sum((point.asked_bytes - size) ** 2 for point in group)
    if along <= 0 or across <= 0:
        return None
    slope = across / along
    return Line(1 / slope, tuple((batch, time - slope * size) for batch, (size, time) in means.items()))
