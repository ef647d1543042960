"""Time on a device: warm-up, medians, CUDA events and graphs, and a copy as a yardstick."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable

import torch

from kvplan.units import MIB

Work = Callable[[], object]

_GPU_COPY, _CPU_COPY = 2**31, 2**25
"""Bytes copied to find how fast a copy is: more than caches hold, and on a CPU no more than there is room for."""


def wait(device: torch.device) -> None:
    """Wait until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def once(work: Work, device: torch.device) -> float:
    """Seconds of one call."""
    if device.type == "cuda":
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def median(work: Work, device: torch.device, repeats: int, warm: int = 2) -> float:
    """Median seconds of `repeats` calls, after `warm` uncounted ones."""
    for _ in range(warm):
        work()
    wait(device)
    return statistics.median(once(work, device) for _ in range(repeats))


@functools.cache
def _side(device: torch.device) -> torch.cuda.Stream:
    """The one stream for capturing graphs, because cuBLAS keeps a workspace for every stream it has ever used."""
    return torch.cuda.Stream(device)


def graphed(work: Work, device: torch.device) -> tuple[Work, bool]:
    """The work as a CUDA graph, and whether that succeeded; the work itself on a CPU or if capturing fails.

    The work's tensors must stay in place. Capturing runs the work a few times first, on a side stream.
    """
    if device.type != "cuda":
        return work, False
    side = _side(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=side):
            work()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        wait(device)
        return work, False
    return graph.replay, True


def copy_bandwidth(device: torch.device, room: int) -> float:
    """Bytes/s of a large copy, bytes read and written together. It uses at most `room` bytes."""
    # A GPU that was idle takes a moment to raise its clocks: dozens of copies of a millisecond each don't count.
    wanted, repeats, warm = (_GPU_COPY, 15, 60) if device.type == "cuda" else (_CPU_COPY, 5, 2)
    size = max(MIB, min(wanted, room // 2))
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = functools.partial(target.copy_, source)
    seconds = median(copy, device, repeats, warm)
    del source, target, copy
    if device.type == "cuda":
        torch.cuda.empty_cache()  # otherwise these gigabytes would be missing for the caches
    return 2 * size / seconds


def launch_floor(device: torch.device) -> float | None:
    """Seconds of an empty kernel in a graph, from a graph of 256; None if none can be captured."""
    if device.type != "cuda":
        return None
    one = torch.zeros(1, device=device)

    def many() -> None:
        for _ in range(256):
            one.add_(1)

    work, captured = graphed(many, device)
    return median(work, device, repeats=20) / 256 if captured else None


def kernels(work: Work, device: torch.device) -> int | None:
    """Kernels that one call launches; None if they can't be counted."""
    if device.type != "cuda":
        return None
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            work()
            wait(device)
        # Where the profiler may not look at the device, as in many containers, it finds none; but every step has some.
        return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in found.events()) or None
    except Exception:
        return None
