"""The line through step times: what a byte of cache costs, and what is left when no cache is read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One measured step: `batch` sequences of `context` tokens, bytes that it reads, its median time.

    kv_bytes: by prediction. asked_bytes: the same counted in the step itself.
    """

    batch: int
    context: int
    weight_bytes: int
    kv_bytes: int
    seconds: float
    experts: float | None = None
    asked_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """seconds = intercept(batch) + kv_bytes / kv_bytes_per_s."""

    kv_bytes_per_s: float
    intercepts: tuple[tuple[int, float], ...]

    def intercept(self, batch: int) -> float:
        """Time of a step of `batch` sequences without any cache to read: weights and overhead."""
        return dict(self.intercepts)[batch]


_OWN_POINTS = 3
"""Other steps of a batch from which on they make a line of their own."""


def held_out(points: Sequence[Point], left_out: Point) -> float | None:
    """The time of a step by the line through the others; None if they don't make one, or none shares its batch.

    The others of its own batch where they are enough: another batch may have another kernel, and so another slope.
    """
    others = [point for point in points if point is not left_out]
    own = [point for point in others if point.batch == left_out.batch]
    found = fit(own if len(own) >= _OWN_POINTS else others)
    if found is None or left_out.batch not in dict(found.intercepts):
        return None
    return found.intercept(left_out.batch) + left_out.kv_bytes / found.kv_bytes_per_s


def fit(points: Sequence[Point]) -> Line | None:
    """Least squares with one slope for all batches and one intercept for each.

    None unless some batch was measured at two sizes of cache, or when time doesn't grow with the cache.
    """
    batches: dict[int, list[Point]] = {}
    for point in points:
        batches.setdefault(point.batch, []).append(point)
    across = along = 0.0
    means: dict[int, tuple[float, float]] = {}
    for batch, group in batches.items():
        size = sum(point.kv_bytes for point in group) / len(group)
        time = sum(point.seconds for point in group) / len(group)
        means[batch] = (size, time)
        across += sum((point.kv_bytes - size) * (point.seconds - time) for point in group)
        along += sum((point.kv_bytes - size) ** 2 for point in group)
    if along <= 0 or across <= 0:
        return None
    slope = across / along
    return Line(1 / slope, tuple((batch, time - slope * size) for batch, (size, time) in means.items()))
