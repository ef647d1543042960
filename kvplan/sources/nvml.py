"""The NVIDIA GPUs of this machine, as its driver describes them, for `--gpu auto` and `kvplan env`.

Needs nvidia-ml-py (`pip install "kvplan[nvml]"`). NVML's memory is a measurement of this machine and replaces the
bundled figure. Everything else (bandwidth, FLOPs) comes from configs/gpus if the card is known there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from kvplan.errors import UnknownName, UsageError
from kvplan.hardware.gpu import Fact, Gpu
from kvplan.hardware.names import split_profile
from kvplan.sources.gpus import gpus_of_driver_name, load_gpu
from kvplan.units import MIB, format_bytes

MEMINFO = Path("/proc/meminfo")
KERNEL = Path("/proc/version")
SOURCE = "this machine, NVML"

_SAME_CARD = (0.9, 1.1)
"""A card is a known one if its total memory is this close: ECC takes 1/16, another size differs by a fifth."""
_NAME_IT = "name the GPU instead: `kvplan gpus` lists them"


@dataclass(frozen=True, slots=True)
class LocalGpu:
    """One GPU or MIG slice of this machine.

    index: NVML's. total: bytes by NVML, None if the memory is the host's. used: bytes that processes hold now, None if
    NVML doesn't say. gpu: for planning, with the memory measured here.
    """

    index: int
    name: str
    gpu: Gpu
    total: int | None
    used: int | None


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs that a CUDA process sees here, and the driver.

    driver: its version. cuda: the newest CUDA that it supports, as 12.8. gpus: those that CUDA_VISIBLE_DEVICES allows.
    """

    driver: str
    cuda: str | None
    wsl: bool
    gpus: tuple[LocalGpu, ...]


def auto_gpu() -> tuple[Gpu, int]:
    """The GPU of this machine, and the number of them.

    Raises: UsageError if there is none, NVML can't be asked, or the GPUs differ.
    """
    found = read_machine().gpus
    kinds = dict.fromkeys(local.gpu.id for local in found)
    if len(kinds) > 1:
        held = ", ".join(f"{sum(local.gpu.id == kind for local in found)}x {kind}" for kind in kinds)
        raise UsageError(
            "the GPUs of this machine differ",
            cause=f"it has {held}; a plan gives every GPU the same share",
            hint=f"write --gpu {next(iter(kinds))}, or leave one kind in CUDA_VISIBLE_DEVICES",
        )
    gpu = min((local.gpu for local in found), key=lambda gpu: gpu.memory.value)
    if gpu.mig_of is None:
        return gpu, len(found)
    if len(found) > 1:
        gpu = replace(gpu, notes=(*gpu.notes, f"One of {len(found)} slices: a CUDA process sees only one."))
    return gpu, 1


def read_machine() -> Machine:
    """Every GPU that NVML shows and CUDA_VISIBLE_DEVICES allows.

    Raises: UsageError.
    """
    wsl = "microsoft" in _text_of(KERNEL).lower()
    with _library(wsl=wsl) as nvml:
        driver = _decoded(nvml.nvmlSystemGetDriverVersion())
        cuda = _asked(nvml, nvml.nvmlSystemGetCudaDriverVersion)
        version = f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else None
        gpus = tuple(_local(nvml, handle, driver, wsl=wsl) for handle in _visible(nvml))
    if not gpus:
        raise UsageError("this machine has no NVIDIA GPU", cause="its driver lists none", hint=_NAME_IT)
    return Machine(driver, version, wsl, gpus)


@contextmanager
def _library(*, wsl: bool) -> Iterator[ModuleType]:
    """NVML, opened and closed, with its errors in words.

    Raises: UsageError.
    """
    try:
        pynvml = import_module("pynvml")
    except ImportError:
        raise UsageError(
            "--gpu auto needs nvidia-ml-py",
            cause="it reads this machine's NVIDIA GPUs through NVML",
            hint=f'pip install "kvplan[nvml]", or {_NAME_IT}',
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _no_driver(pynvml, error, wsl=wsl) from None
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise UsageError("NVML can't describe the GPUs of this machine", cause=str(error), hint=_NAME_IT) from None
    finally:
        pynvml.nvmlShutdown()


def _no_driver(nvml: ModuleType, error: Exception, *, wsl: bool) -> UsageError:
    if isinstance(error, nvml.NVMLError_LibRmVersionMismatch):
        return UsageError(
            "the NVIDIA driver was updated and not restarted", cause=str(error), hint="restart the machine"
        )
    hint = _NAME_IT
    if wsl:
        hint = f"under WSL the driver is Windows' own; check that nvidia-smi runs here, or {_NAME_IT}"
    return UsageError(
        "this machine has no NVIDIA driver",
        cause=f"{error}; AMD GPUs, Macs and other accelerators can't be detected",
        hint=hint,
    )


def _visible(nvml: ModuleType) -> list[Any]:
    """Handles of the GPUs and MIG slices that a CUDA process would see.

    A MIG slice is looked up by its own UUID: the handle of its GPU needs a permission that containers lack, and
    describes another device.

    Raises: UsageError if CUDA_VISIBLE_DEVICES allows none.
    """
    wanted = _wanted()
    if wanted is None:
        return [handle for index in range(nvml.nvmlDeviceGetCount()) for handle in _with_slices(nvml, index)]
    handles: list[Any] = []
    for name in wanted:
        if name.startswith("MIG-"):
            handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
        elif name.startswith("GPU-"):
            index = nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(name))
            handles += _with_slices(nvml, index)
        elif name.isdigit() and int(name) < nvml.nvmlDeviceGetCount():
            handles += _with_slices(nvml, int(name))
        else:  # CUDA ignores what follows a name it doesn't know
            break
    if not handles:
        raise UsageError("no GPU is visible", cause="CUDA_VISIBLE_DEVICES leaves none", hint=f"unset it, or {_NAME_IT}")
    return handles


def _wanted() -> list[str] | None:
    """Names in CUDA_VISIBLE_DEVICES, or MIG slices given to a container; None if neither is set."""
    cuda = os.environ.get("CUDA_VISIBLE_DEVICES")
    if cuda is not None:
        return [name.strip() for name in cuda.split(",")]
    container = [name.strip() for name in os.environ.get("NVIDIA_VISIBLE_DEVICES", "").split(",")]
    slices = [name for name in container if name.startswith("MIG-")]
    return slices or None


def _with_slices(nvml: ModuleType, index: int) -> list[Any]:
    """The GPU, or its MIG slices if MIG is on, because then nothing can run on the whole GPU.

    Raises: UsageError if MIG is on and there is no slice.
    """
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    mode = _asked(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if not mode or not mode[0]:
        return [handle]
    slots = range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    slices = [_asked(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot) for slot in slots]
    found = [one for one in slices if one is not None]
    if not found:
        raise UsageError(
            f"GPU {index} is in MIG mode and has no slice",
            cause="nothing can run on it",
            hint="make one (nvidia-smi mig -cgi), or turn MIG off (nvidia-smi -mig 0)",
        )
    return found


@dataclass(frozen=True, slots=True)
class _Memory:
    """Bytes by NVML. reserved: kept by the driver, None before driver 510."""

    total: int
    used: int
    reserved: int | None


def _local(nvml: ModuleType, handle: Any, driver: str, *, wsl: bool) -> LocalGpu:
    name = _decoded(nvml.nvmlDeviceGetName(handle))
    is_slice = bool(_asked(nvml, nvml.nvmlDeviceIsMigDeviceHandle, handle))
    whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if is_slice else handle
    memory = _memory(nvml, handle)
    if memory is None and is_slice:
        raise UsageError(
            f"NVML reports no memory for {name}",
            cause="a container may read its own MIG slice only by the slice's UUID, and this one isn't readable at all",
            hint=f"name the slice: {_slice_hint(name)}, with --gpu-memory if it has another size",
        )
    gpu = _described(nvml, whole, name, memory)
    gpu = _with_memory(gpu, memory, driver, wsl=wsl)
    index = _asked(nvml, nvml.nvmlDeviceGetIndex, whole)
    return LocalGpu(
        index=index if isinstance(index, int) else 0,
        name=name,
        gpu=gpu,
        total=memory.total if memory else None,
        used=memory.used if memory else None,
    )


def _slice_hint(name: str) -> str:
    known = gpus_of_driver_name(re.sub(r"\s+MIG\s.*", "", name))
    profile = split_profile(name)[1] or "1g.10gb"
    return f"--gpu {known[0].id if known else 'h100-sxm'}:{profile}"


def _memory(nvml: ModuleType, handle: Any) -> _Memory | None:
    """Memory by NVML; None if it reports none or 0 (unified memory, a slice that may not be read)."""
    second = _asked(nvml, nvml.nvmlDeviceGetMemoryInfo, handle, getattr(nvml, "nvmlMemory_v2", None))
    if second is not None and second.total and hasattr(second, "reserved"):
        return _Memory(int(second.total), int(second.used), int(second.reserved))
    first = _asked(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return _Memory(int(first.total), int(first.used), None) if first is not None and first.total else None


def _described(nvml: ModuleType, whole: Any, name: str, memory: _Memory | None) -> Gpu:
    """The card as configs/gpus knows it, else as far as NVML describes it.

    Raises: UsageError if neither knows its memory bandwidth.
    """
    parent = re.sub(r"\s+MIG\s.*", "", name)
    profile = split_profile(name)[1] if parent != name else None
    known = gpus_of_driver_name(parent)
    if memory is None:
        known = tuple(card for card in known if card.unified)
    if profile is not None:
        for card in known:
            try:
                return load_gpu(f"{card.id}:{profile}")
            except UnknownName:
                continue
    total = memory.total if memory else _host("MemTotal")
    same = [card for card in known if total is not None and _same_size(card, total)]
    if same and profile is None:
        return min(same, key=lambda card: abs(_known_total(card) - (total or 0)))
    return _unknown(nvml, whole, name, memory)


def _known_total(card: Gpu) -> int:
    return (card.memory_smi or card.memory).value


def _same_size(card: Gpu, total: int) -> bool:
    low, high = _SAME_CARD
    return low * _known_total(card) <= total <= high * _known_total(card)


def _unknown(nvml: ModuleType, whole: Any, name: str, memory: _Memory | None) -> Gpu:
    bits = _asked(nvml, nvml.nvmlDeviceGetMemoryBusWidth, whole)
    clock = _asked(nvml, nvml.nvmlDeviceGetMaxClockInfo, whole, getattr(nvml, "NVML_CLOCK_MEM", 2))
    if memory is None:
        raise UsageError(
            f"NVML reports no memory for {name}",
            cause="it may not be read here, and kvplan knows no such device that shares its memory with the host",
            hint=_NAME_IT,
        )
    if not bits or not clock or split_profile(name)[1] is not None:
        raise UsageError(
            f"kvplan doesn't know the {name}",
            cause="its driver doesn't say how fast its memory is",
            hint="describe it in a YAML file (docs/adding-a-gpu.md) and write --gpu FILE.yaml",
        )
    # Both edges of the memory clock carry data: 10501 MHz x 2 x 384 bits are the 1008 GB/s of an RTX 4090.
    bandwidth = clock * 10**6 * 2 * bits // 8
    capability = _asked(nvml, nvml.nvmlDeviceGetCudaComputeCapability, whole)
    how = f"{bits} bits x {clock} MHz x 2 / 8"
    return Gpu(
        id=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        name=name,
        vendor="nvidia",
        architecture="unknown",
        memory=Fact(memory.total, "measured", (SOURCE,)),
        bandwidth=Fact(bandwidth, "derived", (SOURCE,), how),
        compute_capability=(int(capability[0]), int(capability[1])) if capability else None,
        driver_names=(name,),
        notes=("configs/gpus doesn't have this card in this size: its bandwidth is what NVML's clock and bus make.",),
    )


def _with_memory(gpu: Gpu, memory: _Memory | None, driver: str, *, wsl: bool) -> Gpu:
    """The GPU with the memory of this machine."""
    if memory is None:
        return _unified(gpu, driver)
    kept = memory.reserved or 0
    known = gpu.memory_smi.value - gpu.memory.value if gpu.memory_smi else 0
    if 0 < known < memory.total // 16:  # CUDA keeps more than NVML's `reserved` on some cards: believe the larger
        kept = max(kept, known)
    how = f"{memory.total // MIB} MiB less {kept // MIB} MiB that the driver keeps"
    notes = list(gpu.notes)
    value = memory.total - kept
    if wsl:
        value -= memory.used
        how += f", less {memory.used // MIB} MiB that Windows and other programs hold"
        notes.append("Under WSL, Windows decides what is left: planned on what is free now.")
    elif memory.used > 256 * MIB:
        notes.append(f"{format_bytes(memory.used)} are in use on it now; the plan is for an empty GPU.")
    fact = Fact(value, "measured", (f"{SOURCE}, driver {driver}",), how, _known(gpu))
    smi = Fact(memory.total, "measured", (f"{SOURCE}, driver {driver}",))
    return replace(gpu, memory=fact, memory_smi=smi, memory_os="wsl" if wsl else None, notes=tuple(notes))


def _unified(gpu: Gpu, driver: str) -> Gpu:
    """Memory shared with the host, which NVML doesn't report: what the kernel could give now.

    MemAvailable, not MemFree, because the page cache is given back on demand.

    Raises: UsageError if the kernel doesn't report it either.
    """
    available = _host("MemAvailable")
    if available is None:
        raise UsageError(
            f"neither NVML nor {MEMINFO} says how much memory {gpu.name} has",
            hint=f"write --gpu {gpu.id} --gpu-memory N",
        )
    fact = Fact(
        min(available, gpu.memory.value),
        "measured",
        (f"this machine, {MEMINFO}, driver {driver}",),
        "MemAvailable: the operating system shares this memory",
        _known(gpu),
    )
    # What the host holds is already out of MemAvailable.
    return replace(gpu, memory=fact, memory_os=None, unified=True, host_share=None)


def _host(field: str) -> int | None:
    """Bytes of a line of /proc/meminfo."""
    found = re.search(rf"^{field}:\s+(\d+) kB", _text_of(MEMINFO), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _known(gpu: Gpu) -> tuple[Fact, ...]:
    return () if gpu.memory.sources == (SOURCE,) else (replace(gpu.memory, alternates=()),)


def _asked(nvml: ModuleType, question: Callable[..., Any], *arguments: object) -> Any:
    """NVML's answer, or None if this driver or device gives none."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _decoded(text: object) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
