"""What is made of step times on a GPU: made-up times of a machine that reads just what is predicted, and of worse ones."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from kvplan.api import load_gpu, load_model
from kvplan.arch.formats import parse_kv_format
from kvplan.verify.line import Point, fit
from kvplan.verify.live.checks.speed import judged
from kvplan.verify.live.checks.timing import Times
from kvplan.verify.predict import Predicted
from kvplan.verify.reduce import reduced
from kvplan.verify.verdict import Row

pytestmark = pytest.mark.torch
COPY, OVERHEAD = 4.2e12, 5e-4
LADDER = [(batch, tokens // batch) for batch in (1, 16) for tokens in (131_072, 262_144, 524_288, 1_572_864)]


def llama() -> Predicted:
    model = load_model("llama-3.1-8b", offline=True)
    return Predicted(reduced(model, tuple(range(32))), 1, parse_kv_format("fp8"))


def rows(
    seconds: Callable[..., float],
    reader: str = "triton 16K/4w/3s/4p",
    kernels: int | None = 500,
    cache_factor: float = 1.0,
    weights_factor: float = 1.0,
) -> dict[str, Row]:
    """Rows of a run whose steps took `seconds(weight bytes, cache bytes, batch)`.

    The factors are of predictions: 2.0 for twice what the steps were counted to read.
    """
    predicted = llama()
    times = Times(COPY, floor_s=1e-6, kernels=kernels, readers={"kv": reader})
    times.weights_shares = {1: weights_factor, 16: weights_factor}
    for batch, context in LADDER:
        weights, cache = predicted.weights_read(batch) or 0, batch * predicted.reads(context)
        taken = seconds(weights / weights_factor, cache, batch)
        times.points.append(Point(batch, context, weights, round(cache_factor * cache), cache, taken))
    times.line = fit(times.points)
    return {row.what: row for row in judged(predicted, times, load_gpu("h200"), cuda=True)}


def test_a_machine_that_reads_what_is_predicted():
    found = rows(lambda weights, cache, _: weights / (0.88 * COPY) + cache / (0.95 * COPY) + OVERHEAD)
    assert {row.verdict for row in found.values()} == {"confirmed", "reported"}
    assert found["reading the cache, share of the copy"].measured == pytest.approx(0.95)
    assert found["reading the weights, share of the copy"].measured == pytest.approx(0.88)
    step = found["step of 16 x 98,304 tokens"]
    assert step.verdict == "confirmed"
    assert step.error == pytest.approx(0, abs=1e-9)
    # Weights: 16.06 GB without 1.05 GB of embedding, of which a row is read; cache: 65,536 B a token in fp8.
    crossover = next(row for what, row in found.items() if what.startswith("context at which"))
    by_bytes = (16.06e9 - 1.05e9) / 65_536 / 16
    assert f"by bytes alone {by_bytes:,.0f}"[:18] in crossover.rule
    assert crossover.predicted == crossover.measured == pytest.approx(by_bytes * 0.95 / 0.88, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "refuted"),
    [
        (
            lambda weights, cache, _: weights / COPY + cache / (2 * COPY) + OVERHEAD,
            "fastest step",
        ),  # half was never read
        (lambda weights, cache, _: weights / COPY + (cache / COPY) ** 2 * 40 + OVERHEAD, "step of"),  # no line
        # The large batch reads its weights twice.
        (
            lambda weights, cache, batch: weights * (1 + batch // 16) / COPY + cache / COPY + OVERHEAD,
            "context at which",
        ),
    ],
)
def test_machines_that_do_not(seconds, refuted):
    found = rows(seconds)
    assert any(row.verdict == "refuted" and row.what.startswith(refuted) for row in found.values()), found


@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize("speed", [0.95, 0.3])
@pytest.mark.parametrize("what", ["cache_factor", "weights_factor"])
def test_a_wrong_factor_is_refuted_at_any_speed(what, speed, factor):
    """A line through predicted bytes would hide it in its slope: speeds are those of bytes that were counted."""

    def seconds(weights, cache, _):
        return weights / (0.9 * COPY) + cache / (speed * COPY) + OVERHEAD

    found = rows(seconds, **{what: factor})
    steps = [row for name, row in found.items() if name.startswith("step of")]
    assert any(row.verdict == "refuted" for row in steps), steps
    assert all(row.verdict != "refuted" for row in rows(seconds).values())


def test_a_cache_that_is_read_faster_than_memory_was_not_read():
    """Both sides count twice what is read: a real 90 % of the datasheet's 4.8 TB/s looks like 180 %."""
    found = rows(lambda weights, cache, _: weights / COPY + cache / (1.8 * 4.8e12) + OVERHEAD)
    row = found["reading the cache, share of the datasheet"]
    assert (row.verdict, row.measured) == ("refuted", pytest.approx(1.8, rel=0.01))


@pytest.mark.parametrize("reader", ["torch spans", "plain torch"])
def test_a_slow_reader_refutes_nothing(reader):
    """Plain torch reads a cache at a quarter of a copy's speed, whatever the cache."""

    def slow(weights, cache, _):
        return weights / COPY + cache / (0.25 * COPY) + OVERHEAD

    row = rows(slow, reader)["reading the cache, share of the copy"]
    assert (row.verdict, row.measured) == ("reported", pytest.approx(0.25))
    assert "read by plain torch" in row.rule
    own = rows(slow, "torch sdpa")["reading the cache, share of the copy"]
    assert (own.verdict, own.predicted) == ("reported", 0.85)
    assert "says nothing of the bytes" in own.rule


def test_launches_that_nobody_counted_are_not_called_none():
    found = rows(lambda weights, cache, _: weights / COPY + cache / COPY + OVERHEAD, kernels=None)
    steps = [row for what, row in found.items() if what.startswith("step of")]
    assert {row.verdict for row in steps} == {"reported"}
    assert "launches not counted" in found["reading the weights, share of the copy"].rule
    assert Times(COPY).overhead_s is None
    assert Times(COPY, floor_s=1e-6, kernels=500).overhead_s == pytest.approx(5e-4)


def test_a_profiler_that_sees_nothing_has_counted_nothing(monkeypatch):
    """CUPTI is often out of a container's reach: no events then, and no error either."""
    from contextlib import nullcontext
    from types import SimpleNamespace

    from kvplan.verify.live import clock

    monkeypatch.setattr(torch.profiler, "profile", lambda **_: nullcontext(SimpleNamespace(events=list)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    assert clock.kernels(lambda: None, torch.device("cuda")) is None


def test_batches_may_have_speeds_of_their_own():
    """Another batch, another kernel: each step is held against its own batch where that has enough others."""
    found = rows(
        lambda weights, cache, batch: weights / COPY + cache / ((0.88 if batch == 1 else 0.98) * COPY) + OVERHEAD
    )
    steps = [row for what, row in found.items() if what.startswith("step of")]
    assert len(steps) == len(LADDER)
    assert all(row.verdict == "confirmed" and abs(row.error or 0.0) < 1e-6 for row in steps), steps


@pytest.mark.parametrize(("one", "sixteen"), [(0.9, 0.65), (0.65, 0.9)])
def test_batches_may_read_weights_at_speeds_of_their_own(one, sixteen):
    """A matrix times one vector and times sixteen are different kernels: the crossover moves, and says nothing of bytes."""
    found = rows(
        lambda weights, cache, batch: (
            weights / ((one if batch == 1 else sixteen) * COPY) + cache / (0.95 * COPY) + OVERHEAD
        )
    )
    assert not [row for row in found.values() if row.verdict == "refuted"]
    crossover = next(row for what, row in found.items() if what.startswith("context at which"))
    assert crossover.verdict == "reported"
    assert crossover.error == pytest.approx(one / sixteen - 1, rel=0.01)


def test_batches_may_read_the_cache_at_speeds_of_their_own():
    """A slope of both batches together would put what one reads slower into the other's weights."""
    found = rows(
        lambda weights, cache, batch: weights / COPY + cache / ((0.8 if batch == 1 else 0.97) * COPY) + OVERHEAD
    )
    assert not [row for row in found.values() if row.verdict == "refuted"]
    crossover = next(row for what, row in found.items() if what.startswith("context at which"))
    assert (crossover.verdict, crossover.error) == ("confirmed", pytest.approx(0, abs=1e-3))


@pytest.mark.parametrize("contexts", [2, 3])
def test_a_step_is_held_against_its_own_batch_alone(contexts):
    """Two or three contexts are no line of their own, and another batch's kernels are no measure."""
    times = Times(COPY, floor_s=1e-6, kernels=500, readers={"kv": "triton"})
    for batch, share in ((1, 0.8), (16, 0.97)):
        for place in range(contexts):
            context = 65_536 * 2**place // batch
            cache = batch * llama().reads(context)
            seconds = 15e9 / COPY + cache / (share * COPY) + OVERHEAD
            times.points.append(Point(batch, context, 15 * 10**9, cache, cache, seconds))
    times.line = fit(times.points)
    steps = [row for row in judged(llama(), times, load_gpu("h200"), cuda=True) if row.what.startswith("step")]
    assert {row.verdict for row in steps} == {"reported"}
    assert all("3 other steps of its batch" in row.rule for row in steps)


@pytest.mark.parametrize(("tokens", "verdict"), [(64, "reported"), (4096, "refuted")])
def test_what_a_gpu_holds_itself_may_be_read_faster_than_memory(tokens, verdict):
    """32,768 B a token and sequence: 2 MiB lie in the GPU's own caches of 50 MiB, 2 GiB don't."""
    model = replace(llama().model, weights=None)
    predicted = replace(llama(), model=model)
    times = Times(COPY, floor_s=1e-6, kernels=1)
    for context in (tokens, 2 * tokens):
        cache = 16 * predicted.reads(context)
        times.points.append(Point(16, context, 0, cache, cache, cache / (2 * 4.8e12)))
    times.line = fit(times.points)
    found = {row.what: row for row in judged(predicted, times, load_gpu("h200"), cuda=True)}
    assert found["fastest step over the datasheet's bound"].verdict == verdict
    assert found["fastest step over the datasheet's bound"].measured == pytest.approx(0.5)


def test_steps_that_launches_fill_are_not_judged():
    predicted = llama()
    times = Times(COPY, floor_s=1e-4, kernels=500)
    times.points = [Point(1, context, 10**9, context, context, 0.06) for context in (1000, 2000)]
    times.line = fit(times.points)
    steps = [row for row in judged(predicted, times, None, cuda=True) if row.what.startswith("step")]
    assert [row.verdict for row in steps] == ["reported", "reported"]


def test_steps_that_python_launches_are_not_judged():
    predicted = llama()
    times = Times(COPY, floor_s=1e-6, kernels=500, graphs=False)
    times.points = [Point(1, context, 10**9, context, context, 0.06) for context in (1000, 2000, 3000, 40_000)]
    times.line = fit(times.points)
    steps = [row for row in judged(predicted, times, None, cuda=True) if row.what.startswith("step")]
    assert {row.verdict for row in steps} == {"reported"}


def test_a_reader_that_fails_is_no_candidate(monkeypatch):
    """On a GPU where nothing compiles the plain one still reads; where one works, it is the one."""
    from kvplan.verify.live.kernels import readers

    def unused(_):
        raise AssertionError

    able = [readers.Named(name, unused) for name in ("first", "second", "plain")]
    monkeypatch.setattr(readers, "candidates", lambda *_, **__: able)
    works: list[str] = []

    def seconds(self, named, query):
        if named.name not in works:
            raise RuntimeError("out of resources: shared memory")
        return 1.0

    monkeypatch.setattr(readers.Fastest, "_seconds", seconds)
    fastest = readers.Fastest(torch.device("cuda"), triton=True)
    assert fastest._pick(None).name == "plain"
    works.append("second")
    assert fastest._pick(None).name == "second"
    # Out of time, the first that works is good enough.
    works.append("first")
    monkeypatch.setattr(readers.Fastest, "_seconds", lambda _, named, __: {"first": 2.0, "second": 1.0}[named.name])
    assert fastest._pick(None).name == "second"
    fastest.deadline = 0.0
    assert fastest._pick(None).name == "first"


def test_the_allocator_is_asked_for_what_was_asked_of_it(monkeypatch):
    """Not for what it keeps: 33 MiB have a segment of 34, and the last MiB is too little to be split off."""
    from kvplan.verify.live.checks.bytes_held import Taken

    device = torch.device("cuda")
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1, 2))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 34 * 2**20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 34 * 2**20)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda _: {"requested_bytes.all.current": 33 * 2**20})
    assert Taken.now(device).allocated == 33 * 2**20
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda _: {})
    assert Taken.now(device).allocated == 34 * 2**20


@pytest.mark.parametrize(
    ("reserved", "taken", "verdict"),
    [
        (100, 100, "confirmed"),
        (102, 118, "confirmed"),  # kernels that were loaded meanwhile
        (100, 400, "reported"),  # another process took 300 MiB, or gave them back
        (100, -200, "reported"),
        (200, 200, "refuted"),  # torch itself took twice what was predicted
    ],
)
def test_what_another_process_takes_is_not_ours(reserved, taken, verdict, monkeypatch):
    from types import SimpleNamespace

    from kvplan.verify.live.checks import bytes_held
    from kvplan.verify.live.checks.bytes_held import Taken

    mib, cuda = 2**20, torch.device("cuda")
    tensor = SimpleNamespace(numel=lambda: 100 * mib, element_size=lambda: 1)
    ledger = SimpleNamespace(device=cuda, accounts=("weights",), tensors=lambda _: (tensor,))
    now = Taken(100 * mib, reserved * mib, 1000 * mib - taken * mib, None)
    monkeypatch.setattr(Taken, "now", lambda _: now)
    monkeypatch.setattr(bytes_held, "allocator_settings", lambda: {"allocator": "native"})
    found = {row.what: row for row in bytes_held.allocator(ledger, Taken(0, 0, 1000 * mib, None), 100 * mib)}
    assert found["allocator"].verdict == "confirmed"
    assert (found["driver"].verdict, found["driver"].measured) == (verdict, taken * mib)


@pytest.mark.parametrize(("free", "others"), [(10, True), (60, False)])
def test_a_capacity_that_another_process_took_is_not_refuted(free, others, monkeypatch):
    from kvplan.verify.live.checks.capacity import _taken_by_others

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 100))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 40)
    said = _taken_by_others(torch.device("cuda"), 90)
    assert (said is not None) is others
    assert _taken_by_others(torch.device("cpu"), 90) is None


def test_graphs_and_counts_are_left_alone_on_a_cpu():
    from kvplan.verify.live import clock

    cpu = torch.device("cpu")
    calls: list[int] = []
    work, captured = clock.graphed(lambda: calls.append(1), cpu)
    assert not captured
    assert clock.median(work, cpu, repeats=3, warm=2) >= 0
    assert len(calls) == 5
    assert clock.launch_floor(cpu) is None
    assert clock.kernels(work, cpu) is None
    assert clock.copy_bandwidth(cpu, 2**22) > 0
