"""What a manifest says about the accelerator besides its name: its vendor, and whether it is a slice or a share of one.

Source: NVIDIA's k8s-device-plugin (mig-*, gpu.shared), ROCm's (amd.com/gpu, *_nps*), HAMi (gpumem), Volcano, Aliyun and Tencent
vGPU, GKE's labels of partitions and sharing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

NVIDIA, AMD = "nvidia", "amd"


@dataclass(frozen=True, slots=True)
class Device:
    """One thing that is said. said: the words, as they stand there.

    vendor: whose GPU is asked for; None where nobody says. profile: of a MIG slice, `1g.10gb`. part: what it gets instead
    of a whole GPU, where its memory isn't known from that. counts: whether its amount is a number of GPUs or of slices.
    among: what it may be, where its name doesn't say which.
    """

    said: str
    vendor: str | None = None
    profile: str | None = None
    part: str | None = None
    counts: bool = False
    among: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.said


_SLICE = re.compile(r"(?:nvidia\.com/)?mig-(\d+g\.\d+gb)(?:\.me)?", re.ASCII)
_PARTITION = re.compile(r"amd\.com/(?:dpx|qpx|cpx)(?:_nps\d)?", re.ASCII)
_SHARED = "a GPU that others use too"
_MEMORY = "a part of a GPU's memory"
_SLICED = "a MIG slice"

_RESOURCES: Mapping[str, tuple[str | None, str]] = {
    "nvidia.com/gpu.shared": (NVIDIA, _SHARED),
    "nvidia.com/gpumem": (NVIDIA, _MEMORY),
    "nvidia.com/gpumem-percentage": (NVIDIA, _MEMORY),
    "volcano.sh/vgpu-memory": (NVIDIA, _MEMORY),
    "volcano.sh/vgpu-memory-percentage": (NVIDIA, _MEMORY),
    "aliyun.com/gpu-mem": (NVIDIA, _MEMORY),
    "tencent.com/vcuda-memory": (NVIDIA, _MEMORY),
    "k8s.amazonaws.com/vgpu": (NVIDIA, _SHARED),
}
"""Resources that are parts of a GPU: whose, and what."""

_LABELS: Mapping[str, str] = {
    "cloud.google.com/gke-gpu-sharing-strategy": _SHARED,
    "cloud.google.com/gke-max-shared-clients-per-gpu": _SHARED,
    "nvidia.com/gpu.sharing-strategy": _SHARED,
}
"""Labels of nodes whose GPUs are shared, unless their value is `none`."""

PARTITION_SIZE = "cloud.google.com/gke-gpu-partition-size"
_PROFILE = re.compile(r"\d+g\.\d+gb", re.ASCII)

AMD_DEVICE = "/dev/kfd"
"""The device file through which a container reaches AMD's GPUs."""


def of_resource(name: str, amount: str = "") -> Device | None:
    """What a container gets that asks for `amount` of a resource; None for one that is no GPU."""
    said = f"{name}: {amount}" if amount and name in _RESOURCES else name
    if match := _SLICE.fullmatch(name):
        return Device(said, NVIDIA, match[1], counts=True)
    if name in _RESOURCES:
        vendor, part = _RESOURCES[name]
        whole = name.endswith("percentage") and amount == "100"
        return Device(said, vendor, part=None if whole else part)
    if _PARTITION.fullmatch(name):
        return Device(said, AMD, part="a partition of a GPU", counts=True)
    vendors = {"nvidia.com/gpu": NVIDIA, "amd.com/gpu": AMD}
    return Device(said, vendors[name], counts=True) if name in vendors else None


def of_labels(labels: Iterable[tuple[str, str]]) -> Iterator[Device]:
    """What labels of the node say of its GPUs."""
    for name, value in labels:
        said = f"{name}: {value}"
        if name == PARTITION_SIZE and _PROFILE.fullmatch(value):
            yield Device(said, NVIDIA, value)
        elif name in _LABELS and value.lower() != "none":
            yield Device(said, NVIDIA, part=_LABELS[name])


def of_ids(name: str, value: str) -> Iterator[Device]:
    """What `name=value` says, where the value lists GPUs that a process sees: `0`, `GPU-<uuid>`, `MIG-<uuid>`, `0:1`."""
    if any(each.strip().startswith("MIG-") or re.fullmatch(r"\d+:\d+", each.strip()) for each in value.split(",")):
        yield Device(f"{name}={value[:60]}", NVIDIA, part=_SLICED)


def of_image(image: str) -> Device | None:
    """Whose GPUs an image is built for, where its name says so."""
    words = re.split(r"[^a-z0-9]+", image.partition("@")[0].lower())
    return Device(image[:100], AMD) if any(re.fullmatch(r"rocm\d*", word) for word in words) else None
