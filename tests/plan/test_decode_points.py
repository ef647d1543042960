"""Decode times against public measurements: nothing beats the lower bound, and the estimate is near most of them."""

from __future__ import annotations

import statistics
from pathlib import Path

from plan.decode_points import Point, points

from kvplan.plan.roofline import decode


def timed(point: Point) -> tuple[float, float]:
    """kvplan's lower bound and estimate, in seconds."""
    found = decode(point.request, point.request.kv_format, point.batch)
    assert found is not None
    return found.step_s_low, found.step_s_likely


def test_public_measurements(corpus: Path, count_cases):
    measured = list(points(corpus))
    count_cases("decode steps measured in public", len(measured))
    ratios = []
    for point in measured:
        low, likely = timed(point)
        assert point.seconds >= low, f"{point.row['id']} beats the lower bound: {point.seconds} s against {low} s"
        if point.row["engine"] != "transformers":  # eager: bound by launches on whatever model
            ratios.append(point.seconds / likely)
    assert len(ratios) > 400
    assert 0.8 < statistics.median(ratios) < 1.25
    assert sum(2 / 3 < ratio < 1.5 for ratio in ratios) / len(ratios) > 0.75
