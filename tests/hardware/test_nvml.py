"""`--gpu auto` against a stand-in for pynvml: what the driver says, and every way in which it says nothing."""

# ruff: noqa: N802, N815 - the names are pynvml's

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest

from kvplan.errors import UsageError
from kvplan.sources import nvml
from kvplan.sources.gpus import load_gpu, parse_gpu

MIB = 2**20


class NvmlError(Exception):
    pass


class NotSupported(NvmlError):
    pass


class NoPermission(NvmlError):
    pass


class NotFound(NvmlError):
    pass


class Mismatch(NvmlError):
    pass


@dataclass(eq=False)
class Card:
    """One device as NVML shows it; sizes in MiB. `silent` raises instead of telling the memory."""

    name: str
    total: int = 0
    reserved: int | None = None
    used: int = 0
    silent: type[NvmlError] | None = None
    bus: int | None = None
    clock: int | None = None
    mig: bool = False
    slices: list[Card] = field(default_factory=list)
    parent: Card | None = None

    def __post_init__(self):
        for part in self.slices:
            part.parent = self


class FakeNvml(ModuleType):
    """Answers like pynvml for these cards."""

    NVMLError = NvmlError
    NVMLError_LibRmVersionMismatch = Mismatch
    nvmlMemory_v2 = 2
    NVML_CLOCK_MEM = 2

    def __init__(self, cards, init):
        super().__init__("pynvml")
        self.cards = cards
        self.flat = [*cards, *(part for card in cards for part in card.slices)]
        self.init = init

    def nvmlInit(self):
        if self.init is not None:
            raise self.init

    def nvmlShutdown(self):
        pass

    def nvmlSystemGetDriverVersion(self):
        return b"580.95.05"

    def nvmlSystemGetCudaDriverVersion(self):
        return 13000

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for card in self.flat:
            if self.nvmlDeviceGetUUID(card) == uuid:
                return card
        raise NotFound(f"no {uuid}")

    def nvmlDeviceGetIndex(self, card):
        return self.cards.index(card)

    def nvmlDeviceGetName(self, card):
        return card.name

    def nvmlDeviceGetUUID(self, card):
        return f"{'MIG' if card.parent else 'GPU'}-{self.flat.index(card)}"

    def nvmlDeviceGetMemoryInfo(self, card, version=None):
        if card.silent:
            raise card.silent("silent")
        found = SimpleNamespace(total=card.total * MIB, used=card.used * MIB)
        if version is None:
            return found
        return SimpleNamespace(**vars(found), reserved=told(card.reserved) * MIB)

    def nvmlDeviceGetMigMode(self, card):
        return int(card.mig), int(card.mig)

    def nvmlDeviceGetMaxMigDeviceCount(self, _card):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card, slot):
        if slot >= len(card.slices):
            raise NotFound("an empty slot")
        return card.slices[slot]

    def nvmlDeviceIsMigDeviceHandle(self, card):
        return card.parent is not None

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, card):
        return card.parent

    def nvmlDeviceGetMemoryBusWidth(self, card):
        return told(card.bus)

    def nvmlDeviceGetMaxClockInfo(self, card, _kind):
        return told(card.clock)

    def nvmlDeviceGetCudaComputeCapability(self, _card):
        return 8, 9


def told(value):
    if value is None:
        raise NotSupported("not told")
    return value


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Puts cards into this machine; `meminfo` and `kernel` are its /proc."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)

    def build(*cards, init=None, meminfo="", kernel="Linux version 6.8"):
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(cards, init))
        for name, text in (("MEMINFO", meminfo), ("KERNEL", kernel)):
            path = tmp_path / name
            path.write_text(text)
            monkeypatch.setattr(nvml, name, path)

    return build


def h100(**more):
    return Card("NVIDIA H100 80GB HBM3", total=81559, reserved=470, **more)


def test_a_known_gpu_has_this_machines_memory_and_the_bundled_bandwidth(machine):
    machine(*[h100() for _ in range(8)])
    gpu, count = parse_gpu("auto")
    assert (gpu.id, count) == ("h100-sxm", 8)
    assert gpu.memory.value == 81089 * MIB  # 81559 - 470, which is also what CUDA shows
    assert gpu.memory.kind == "measured"
    assert gpu.memory.sources == ("this machine, NVML, driver 580.95.05",)
    assert gpu.memory.note == "81559 MiB less 470 MiB that the driver keeps"
    assert gpu.bandwidth == load_gpu("h100").bandwidth
    assert gpu.memory.alternates[0].value == load_gpu("h100").memory.value


def test_an_old_driver_tells_no_reserve_and_the_known_one_is_taken(machine):
    machine(Card("NVIDIA L40S", total=46068))
    gpu, _ = parse_gpu("auto")
    assert gpu.memory.value == 45467 * MIB  # 46068 less the 601 MiB between nvidia-smi's total and CUDA's


def test_the_larger_reserve_is_believed(machine):
    # CUDA shows 81151 of an A100's 81920 MiB; NVML reserves less
    machine(Card("NVIDIA A100-SXM4-80GB", total=81920, reserved=500))
    assert parse_gpu("auto")[0].memory.value == 81151 * MIB


def test_counts_and_overrides_of_auto(machine):
    machine(*[h100() for _ in range(8)])
    assert parse_gpu("autox4")[1] == 4
    assert load_gpu("AUTO").id == "h100-sxm"


def test_memory_in_use_is_noted_not_subtracted(machine):
    machine(h100(used=20 * 1024))
    gpu, _ = parse_gpu("auto")
    assert gpu.memory.value == 81089 * MIB
    assert "20.00 GiB are in use on it now" in gpu.notes[-1]
    assert nvml.read_machine().gpus[0].used == 20 * 1024 * MIB


def test_the_machine_for_env(machine):
    machine(h100(), h100())
    found = nvml.read_machine()
    assert (found.driver, found.cuda, found.wsl) == ("580.95.05", "13.0", False)
    assert [(local.index, local.total) for local in found.gpus] == [(0, 81559 * MIB), (1, 81559 * MIB)]


def test_one_name_two_sizes_of_memory(machine):
    # the 16 GB card is in configs/gpus; the 8 GB one is described by its own bus and clock: 128 bits x 9001 MHz x 2 / 8
    machine(Card("NVIDIA GeForce RTX 4060 Ti", total=16380, reserved=300))
    assert parse_gpu("auto")[0].id == "rtx-4060-ti-16"
    machine(Card("NVIDIA GeForce RTX 4060 Ti", total=8188, reserved=300, bus=128, clock=9001))
    gpu, _ = parse_gpu("auto")
    assert gpu.id == "nvidia-geforce-rtx-4060-ti"
    assert gpu.memory.value == (8188 - 300) * MIB
    assert gpu.bandwidth.value == 288_032_000_000
    assert (gpu.bandwidth.kind, gpu.bandwidth.note) == ("derived", "128 bits x 9001 MHz x 2 / 8")
    assert gpu.memory.alternates == ()


def test_an_unknown_card_without_bus_or_clock_is_refused(machine):
    machine(Card("NVIDIA Titan Future", total=50000, reserved=300))
    with pytest.raises(UsageError, match="doesn't know the NVIDIA Titan Future") as caught:
        parse_gpu("auto")
    assert "YAML" in caught.value.problem.hint


# MIG -----------------------------------------------------------------------------------------------------------------


def slices(*cards):
    return Card("NVIDIA H200", total=143771, reserved=615, mig=True, slices=list(cards))


def test_a_mig_slice_is_planned_on_not_its_parent(machine):
    machine(slices(Card("NVIDIA H200 MIG 1g.35gb", total=33280, reserved=0)))
    gpu, count = parse_gpu("auto")
    assert (gpu.id, count) == ("h200-sxm:1g.35gb", 1)
    assert gpu.memory.value == 33280 * MIB  # 32.5 GiB
    assert gpu.bandwidth.value == 1200 * 10**9  # a quarter of 4.8 TB/s


def test_a_container_sees_its_slice_by_uuid_without_asking_the_parent(machine, monkeypatch):
    machine(
        slices(
            Card("NVIDIA H200 MIG 1g.18gb", total=16384, reserved=0),
            Card("NVIDIA H200 MIG 1g.35gb", total=33280, reserved=0),
        )
    )
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "MIG-2")
    assert parse_gpu("auto")[0].id == "h200-sxm:1g.35gb"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    assert parse_gpu("auto")[0].id == "h200-sxm:1g.18gb"


def test_several_slices_of_one_kind_are_one_for_a_process(machine):
    machine(slices(*[Card("NVIDIA H200 MIG 1g.18gb", total=16384, reserved=0) for _ in range(7)]))
    gpu, count = parse_gpu("auto")
    assert count == 1
    assert "One of 7 slices" in gpu.notes[-1]


@pytest.mark.parametrize("silent", [NoPermission, None])
def test_a_slice_of_no_bytes_is_an_error_not_a_gpu_of_none(machine, silent):
    machine(slices(Card("NVIDIA H200 MIG 1g.35gb", total=0, reserved=0, silent=silent)))
    with pytest.raises(UsageError, match=r"no memory for NVIDIA H200 MIG 1g\.35gb") as caught:
        parse_gpu("auto")
    assert "--gpu h200-sxm:1g.35gb" in caught.value.problem.hint


def test_mig_without_slices(machine):
    machine(slices())
    with pytest.raises(UsageError, match="in MIG mode and has no slice") as caught:
        parse_gpu("auto")
    assert "nvidia-smi mig -cgi" in caught.value.problem.hint


def test_a_slice_kvplan_does_not_list(machine):
    machine(slices(Card("NVIDIA H200 MIG 5g.99gb", total=90000, reserved=0)))
    with pytest.raises(UsageError, match=r"doesn't know the NVIDIA H200 MIG 5g\.99gb"):
        parse_gpu("auto")


# Memory that isn't the GPU's own -------------------------------------------------------------------------------------

MEMINFO = "MemTotal:       125537000 kB\nMemFree:         5000000 kB\nMemAvailable:  107000000 kB\n"


@pytest.mark.parametrize("card", [Card("NVIDIA GB10", silent=NotSupported), Card("NVIDIA GB10", total=0)])
def test_unified_memory_is_what_the_kernel_can_give(machine, card):
    machine(card, meminfo=MEMINFO)
    gpu, _ = parse_gpu("auto")
    assert (gpu.id, gpu.unified, gpu.host_share) == ("dgx-spark", True, None)
    assert gpu.memory.value == 107_000_000 * 1024  # MemAvailable, not MemFree
    assert "MemAvailable" in gpu.memory.note
    assert nvml.read_machine().gpus[0].total is None


def test_modules_of_one_driver_name_are_told_apart_by_the_hosts_memory(machine):
    machine(Card("Orin", silent=NotSupported), meminfo="MemTotal: 7800000 kB\nMemAvailable: 6000000 kB\n")
    assert parse_gpu("auto")[0].id == "jetson-orin-nano-8"
    machine(Card("Orin", silent=NotSupported), meminfo="MemTotal: 64300000 kB\nMemAvailable: 60000000 kB\n")
    assert parse_gpu("auto")[0].id == "jetson-agx-orin-64"


def test_a_silent_gpu_with_memory_of_its_own_is_not_given_the_hosts(machine):
    machine(h100(silent=NoPermission), meminfo=MEMINFO)
    with pytest.raises(UsageError, match="reports no memory for NVIDIA H100"):
        parse_gpu("auto")


def test_wsl_plans_on_what_windows_leaves(machine):
    machine(
        Card("NVIDIA GeForce RTX 4090", total=24564, reserved=354, used=2500),
        kernel="Linux version 5.15.167.4-microsoft-standard-WSL2",
    )
    gpu, _ = parse_gpu("auto")
    assert gpu.memory.value == (24564 - 354 - 2500) * MIB
    assert gpu.memory_os == "wsl"
    assert "Windows" in gpu.notes[-1]


# Nothing to read -----------------------------------------------------------------------------------------------------


def test_without_nvidia_ml_py(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UsageError, match="needs nvidia-ml-py") as caught:
        parse_gpu("auto")
    assert 'pip install "kvplan[nvml]"' in caught.value.problem.hint


def test_without_driver(machine):
    machine(init=NotFound("NVML Shared Library Not Found"))
    with pytest.raises(UsageError, match="no NVIDIA driver") as caught:
        parse_gpu("auto")
    assert "AMD" in caught.value.problem.cause
    assert "`kvplan gpus`" in caught.value.problem.hint


def test_without_driver_under_wsl(machine):
    machine(init=NotFound("NVML Shared Library Not Found"), kernel="Microsoft")
    with pytest.raises(UsageError) as caught:
        parse_gpu("auto")
    assert "Windows' own" in caught.value.problem.hint


def test_after_an_update_of_the_driver(machine):
    machine(init=Mismatch("Driver/library version mismatch"))
    with pytest.raises(UsageError, match="updated and not restarted"):
        parse_gpu("auto")


def test_without_gpu(machine):
    machine()
    with pytest.raises(UsageError, match="no NVIDIA GPU"):
        parse_gpu("auto")


@pytest.mark.parametrize("visible", ["", "-1", "7", "NoDevFiles"])
def test_with_none_visible(machine, monkeypatch, visible):
    machine(h100())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(UsageError, match="no GPU is visible"):
        parse_gpu("auto")


def test_cuda_visible_devices_leaves_some(machine, monkeypatch):
    machine(h100(), Card("NVIDIA L4", total=23034, reserved=475), h100())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert parse_gpu("auto")[1] == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    assert parse_gpu("auto")[0].id == "l4"


def test_different_gpus_are_refused_by_name(machine):
    machine(h100(), Card("NVIDIA L4", total=23034, reserved=475))
    with pytest.raises(UsageError, match="differ") as caught:
        parse_gpu("auto")
    assert "1x h100-sxm, 1x l4" in caught.value.problem.cause


def test_the_fullest_of_equal_gpus_decides(machine):
    machine(h100(), Card("NVIDIA H100 80GB HBM3", total=81559, reserved=700))
    assert parse_gpu("auto")[0].memory.value == (81559 - 700) * MIB


def test_any_other_trouble_is_one_error(machine, monkeypatch):
    machine(h100())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-999")
    with pytest.raises(UsageError, match="NVML can't describe"):
        parse_gpu("auto")
