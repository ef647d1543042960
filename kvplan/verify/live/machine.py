"""The device: which one, its memory, and whether it can be used."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import torch

from kvplan.errors import UsageError
from kvplan.units import GIB, format_bytes
from kvplan.verify.torchrun import local_rank, local_size

OLDEST_TORCH = (2, 7)
_OWN = 2 * GIB
"""Upper bound of what a process holds on a GPU before it asks for anything: context and driver, 0.5 to 1 GiB."""
_MOUNT, _GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
OLDEST_CAPABILITY = (7, 0)
"""Volta, the oldest that both torch's attention and Triton run on."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The device of a verification. Sizes are in bytes, None if a device doesn't report them.

    free: before anything was taken; on a CPU, this process's part. others: what other processes hold on a GPU, 0 if it
    may be this process's own. driver: NVIDIA's version. mig: whether it is a MIG slice.
    """

    device: str
    name: str
    total: int
    free: int
    capability: tuple[int, int] | None = None
    cores: int | None = None
    driver: str | None = None
    mig: bool = False
    others: int = 0

    @property
    def busy(self) -> str | None:
        """A note on memory of other processes; None if there is little."""
        if not self.others:
            return None
        return f"other processes hold {format_bytes(self.others)} of this GPU (nvidia-smi shows them)"

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.device.startswith("cuda")


def open_device(asked: str) -> tuple[torch.device, Machine]:
    """The device asked for: auto, cpu, cuda or cuda:N.

    Raises: UsageError, saying what is wrong with it.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < OLDEST_TORCH:
        raise UsageError(
            f"torch {torch.__version__} is too old", cause="verify needs grouped-head attention and eight-bit scales",
            hint="pip install --upgrade 'torch>=2.7'",
        )  # fmt: skip
    if re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", asked) is None:
        raise UsageError(f"{asked!r} is not a device", hint="auto, cpu, cuda or cuda:1")
    if asked == "auto":
        asked = "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "cpu":
        return torch.device("cpu"), _cpu()
    if not torch.cuda.is_available():
        raise UsageError(
            "no CUDA device can be used",
            cause="this torch was built without CUDA"
            if torch.version.cuda is None
            else "torch finds no GPU or no driver",
            hint="kvplan verify --device cpu runs a smaller verification without one",
        )
    return _cuda(asked)


def _cuda(asked: str) -> tuple[torch.device, Machine]:
    number = int(asked.partition(":")[2] or local_rank())
    if number >= torch.cuda.device_count():
        raise UsageError(f"there is no {asked}", hint=f"CUDA devices here: {torch.cuda.device_count()}")
    device = torch.device("cuda", number)
    try:
        torch.cuda.set_device(device)
        free, total = torch.cuda.mem_get_info(device)
        held = total - free - torch.cuda.memory_reserved(device)
        properties = torch.cuda.get_device_properties(device)
        torch.zeros(1, device=device)
    except RuntimeError as error:
        raise UsageError(
            f"{asked} can't be used", cause=str(error).splitlines()[0],
            hint="another process may hold it exclusively (nvidia-smi shows which), or the driver is older than this torch needs",
        ) from error  # fmt: skip
    capability = (properties.major, properties.minor)
    if capability < OLDEST_CAPABILITY:
        raise UsageError(
            f"{properties.name} is too old", cause=f"compute capability {capability[0]}.{capability[1]}; torch needs 7.0",
            hint="kvplan verify --device cpu runs a smaller verification",
        )  # fmt: skip
    machine = Machine(
        device=str(device), name=properties.name, total=total, free=free, capability=capability,
        cores=properties.multi_processor_count, driver=_driver(), mig="MIG" in properties.name,
        others=held if held > _OWN else 0,
    )  # fmt: skip
    return device, machine


def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\s(\d{3,}\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else None


def _cpu() -> Machine:
    facts = _meminfo()
    name = platform.processor() or platform.machine()
    try:
        models = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        name = models[0] if models else name
    except OSError:
        pass
    free = _container_room(facts.get("MemAvailable", 4 * GIB)) // local_size()
    return Machine("cpu", name, facts.get("MemTotal", free), free, cores=torch.get_num_threads())


def _meminfo() -> dict[str, int]:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}


def _container_room(free: int) -> int:
    """At most the memory that the container has left, and every control group above it.

    Its cached files don't count, because they are given back on demand.
    """
    for folder, files in _containers():
        with contextlib.suppress(OSError, ValueError):
            most, used = (int((folder / name).read_text()) for name in (files.most, files.used))
            lines = (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
            cached = sum(int(line.split()[1]) for line in lines if line.startswith(files.cached))
            free = min(free, max(0, most - used + cached))
    return free


class _Files(NamedTuple):
    """Files of a control group: its limit, its use, and lines of memory.stat with the cached files in it."""

    most: str
    used: str
    cached: tuple[str, ...]


_TWO = _Files("memory.max", "memory.current", ("active_file ", "inactive_file "))
_ONE = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file ", "total_inactive_file "))
"""Source: Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst."""


def _containers() -> Iterator[tuple[Path, _Files]]:
    """The control group of this process and those above it; in a container, its view of the mount."""
    try:
        lines = _GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    paths: dict[tuple[Path, _Files], str] = {(_MOUNT, _TWO): "", (_MOUNT / "memory", _ONE): ""}
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            paths[_MOUNT, _TWO] = path
        elif "memory" in controllers.split(","):
            paths[_MOUNT / "memory", _ONE] = path
    for (mount, files), path in paths.items():
        inside = PurePosixPath("/") / path
        for group in (inside, *inside.parents):
            yield mount / group.relative_to("/"), files


def allocator_settings() -> dict[str, str]:
    """The allocator of torch for a GPU's memory and its settings; empty without a GPU.

    Source: torch 2.13 c10/core/AllocatorConfig.cpp, which reads the second name and then the first.
    """
    if not torch.cuda.is_available():
        return {}
    found = {"allocator": torch.cuda.get_allocator_backend()}
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if os.environ.get(name):
            found[name] = os.environ[name]
    return found


def hold_to(device: torch.device, limit: int | None) -> None:
    """Limit torch's own allocator on a GPU to `limit` bytes; None for no limit. Does nothing on a CPU."""
    if device.type == "cuda":
        total = torch.cuda.mem_get_info(device)[1]
        torch.cuda.set_per_process_memory_fraction(1.0 if limit is None else min(1.0, limit / total), device)


def resident() -> int | None:
    """Resident bytes of this process; None if the system doesn't report them.

    Memory that the C library keeps after it was freed is given back first, because new tensors would hide in it.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
