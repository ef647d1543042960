"""Devices that can't be used say so in a sentence; what was asked for is never exceeded. GPUs here are made up."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from verify import tiny

from kvplan.errors import UsageError
from kvplan.verify import Options, verify
from kvplan.verify.live import machine, procedure
from kvplan.verify.live.ledger import Ledger

pytestmark = pytest.mark.torch
GIB = 2**30


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that answers questions and computes nothing."""
    found = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (100 * GIB, 140 * GIB))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    return found


def test_a_gpu_is_described(gpu):
    device, found = machine.open_device("auto")
    assert str(device) == "cuda:0"
    assert (found.name, found.total, found.free) == ("NVIDIA H200", 140 * GIB, 100 * GIB)
    assert (found.capability, found.cores, found.mig) == ((9, 0), 132, False)
    gpu.name = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert machine.open_device("cuda:0")[1].mig


def test_a_gpu_that_is_too_old(gpu):
    gpu.major, gpu.minor = 6, 1
    with pytest.raises(UsageError, match="too old") as refused:
        machine.open_device("cuda")
    assert "6.1" in str(refused.value.problem.cause)


def test_a_gpu_that_is_busy(gpu, monkeypatch):
    def busy(_):
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable\nCompile with ...")

    monkeypatch.setattr(torch.cuda, "mem_get_info", busy)
    with pytest.raises(UsageError, match="can't be used") as refused:
        machine.open_device("cuda")
    assert refused.value.problem.cause == "CUDA error: all CUDA-capable devices are busy or unavailable"
    assert "another process" in str(refused.value.problem.hint)


def test_a_gpu_that_is_not_there(gpu):
    with pytest.raises(UsageError, match="there is no cuda:3"):
        machine.open_device("cuda:3")


def test_what_a_container_caches_of_files_is_free(monkeypatch, tmp_path):
    for name, text in (
        ("memory.max", "1000\n"),
        ("memory.current", "900\n"),
        ("memory.stat", "anon 300\nfile 600\nshmem 100\ninactive_file 350\nactive_file 150\n"),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "_CONTAINER", tmp_path)
    assert machine._container_room(10**6) == 1000 - 900 + 350 + 150
    assert machine._container_room(50) == 50
    (tmp_path / "memory.max").write_text("max\n")
    assert machine._container_room(10**6) == 10**6


def test_a_torch_that_is_too_old(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.1.0+cu118")
    with pytest.raises(UsageError, match="too old"):
        machine.open_device("cpu")


def test_out_of_memory_is_a_sentence(monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...")

    monkeypatch.setattr(procedure, "_run", full)
    with pytest.raises(UsageError, match="ran out of memory") as refused:
        verify(tiny.model("gqa"), Options(device="cpu"))
    assert refused.value.problem.cause == "CUDA out of memory"
    assert "--memory" in str(refused.value.problem.hint)


def test_no_more_memory_than_asked(monkeypatch):
    taken: list[int] = []
    allocate = Ledger.tensor

    def watched(self, shape, dtype, account):
        made = allocate(self, shape, dtype, account)
        if self.limit is not None:
            taken.append(self.taken())
        return made

    monkeypatch.setattr(Ledger, "tensor", watched)
    monkeypatch.setattr(procedure, "_CPU_POOL", 2**20)
    asked = 260 * 2**20
    report = verify(tiny.model("gqa"), Options(device="cpu", memory=asked, batches=(1,), contexts=(64, 128)))
    assert report.built is not None
    assert report.built.memory_limit_bytes == asked
    assert 0 < max(taken) <= asked
