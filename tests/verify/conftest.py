"""What keeps runs of verify small and quick on a CPU."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)  # small tensors gain nothing from more threads, and lose much on a busy machine


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of cache and of copies, and no repeats, as these tests claim nothing about times."""
    from kvplan.verify.live import clock, procedure
    from kvplan.verify.live.checks import timing

    monkeypatch.setattr(procedure, "_CPU_POOL", 2**20)
    monkeypatch.setattr(clock, "_CPU_COPY", 2**20)
    monkeypatch.setattr(timing, "_POINT_S", 0.0)
