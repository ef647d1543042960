"""What is made of step times on a GPU: made-up times of a machine that reads just what is predicted, and of worse ones."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from kvplan.api import load_gpu, load_model
from kvplan.arch.formats import parse_kv_format
from kvplan.verify.line import Point, fit
from kvplan.verify.live.check_time import Times, judged
from kvplan.verify.predict import Predicted
from kvplan.verify.reduce import reduced
from kvplan.verify.verdict import Row

pytestmark = pytest.mark.torch
COPY, OVERHEAD = 4.2e12, 5e-4
LADDER = [(batch, tokens // batch) for batch in (1, 16) for tokens in (131_072, 262_144, 524_288, 1_572_864)]


def llama() -> Predicted:
    model = load_model("llama-3.1-8b", offline=True)
    return Predicted(reduced(model, tuple(range(32))), 1, parse_kv_format("fp8"))


def rows(seconds: Callable[[int, int], float]) -> dict[str, Row]:
    """Rows of a run whose steps took `seconds(weight bytes, cache bytes)`."""
    predicted = llama()
    times = Times(COPY, floor_s=1e-6, kernels=500)
    for batch, context in LADDER:
        weights, cache = predicted.weights_read(batch) or 0, batch * predicted.reads(context)
        times.points.append(Point(batch, context, weights, cache, seconds(weights, cache)))
    times.line = fit(times.points)
    return {row.what: row for row in judged(predicted, times, load_gpu("h200"), cuda=True)}


def test_a_machine_that_reads_what_is_predicted():
    found = rows(lambda weights, cache: weights / (0.88 * COPY) + cache / (0.95 * COPY) + OVERHEAD)
    assert {row.verdict for row in found.values()} == {"confirmed", "reported"}
    assert found["reading the cache, share of the copy"].measured == pytest.approx(0.95)
    assert found["reading the weights, share of the copy"].measured == pytest.approx(0.88)
    step = found["step of 16 x 98,304 tokens"]
    assert step.verdict == "confirmed"
    assert step.error == pytest.approx(0, abs=1e-9)
    # Weights: 16.06 GB without 1.05 GB of embedding, of which a row is read; cache: 65,536 B a token in fp8.
    crossover = next(row for what, row in found.items() if what.startswith("context at which"))
    assert crossover.predicted == pytest.approx((16.06e9 - 1.05e9) / 65_536 / 16, rel=0.01)
    assert crossover.measured == pytest.approx(crossover.predicted * 0.95 / 0.88, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "refuted"),
    [
        (lambda weights, cache: weights / COPY + cache / (0.7 * COPY) + OVERHEAD, "reading the cache"),
        (lambda weights, cache: weights / COPY + cache / (2 * COPY) + OVERHEAD, "fastest step"),  # half was never read
        (lambda weights, cache: weights / COPY + (cache / COPY) ** 2 * 40 + OVERHEAD, "step of"),  # no line
        (lambda weights, cache: weights / (0.5 * COPY) + cache / COPY + OVERHEAD, "context at which"),
    ],
)
def test_machines_that_do_not(seconds, refuted):
    found = rows(seconds)
    assert any(row.verdict == "refuted" and row.what.startswith(refuted) for row in found.values()), found


def test_steps_that_launches_fill_are_not_judged():
    predicted = llama()
    times = Times(COPY, floor_s=1e-4, kernels=500)
    times.points = [Point(1, context, 10**9, context, 0.06) for context in (1000, 2000)]
    times.line = fit(times.points)
    steps = [row for row in judged(predicted, times, None, cuda=True) if row.what.startswith("step")]
    assert [row.verdict for row in steps] == ["reported", "reported"]


def test_graphs_and_counts_are_left_alone_on_a_cpu():
    from kvplan.verify.live import clock

    cpu = torch.device("cpu")
    calls: list[int] = []
    work, captured = clock.graphed(lambda: calls.append(1), cpu)
    assert not captured
    assert clock.median(work, cpu, repeats=3, warm=2) >= 0
    assert len(calls) == 5
    assert clock.launch_floor(cpu) == 0
    assert clock.kernels(work, cpu) == 0
    assert clock.copy_bandwidth(cpu, 2**22) > 0
