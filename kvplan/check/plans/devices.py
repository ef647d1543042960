"""What a manifest says about the accelerator, compared with the GPU that is planned for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvplan.errors import UsageError
from kvplan.manifests.devices.accelerators import Device
from kvplan.text import any_of

if TYPE_CHECKING:
    from kvplan.hardware.gpu import Gpu

_CALLED = {"nvidia": "NVIDIA", "amd": "AMD"}
_DESCRIBED = (".yaml", ".yml")


def named(gpu: str, devices: Iterable[Device]) -> str:
    """The name of the GPU with the MIG slice of it that is asked for; as it is where it names one, or describes the GPU itself."""
    from kvplan.hardware.names import split_profile

    profiles = {device.profile for device in devices if device.profile is not None}
    if len(profiles) != 1 or gpu.endswith(_DESCRIBED) or split_profile(gpu)[1] is not None:
        return gpu
    return f"{gpu}:{profiles.pop()}"


def check(gpu: Gpu, called: str, devices: Iterable[Device], *, sized: bool) -> None:
    """Nothing, if this GPU is what is asked for. called: its name as it was given. sized: whether its memory was given.

    Raises: UsageError for a GPU of another vendor, another slice, or a whole one in place of a part.
    """
    for device in devices:
        if device.vendor in _CALLED and device.vendor != gpu.vendor.lower():
            raise UsageError(
                f"it asks for {device}, and {called} is not {_of(device.vendor)}",
                hint=f"name {_of(device.vendor)}",
            )
        described = sized or called.endswith(_DESCRIBED)
        if device.profile is not None and not described and not gpu.id.endswith(f":{device.profile}"):
            raise UsageError(
                f"it asks for {device}, and {called} is something else", hint=f"--gpu NAME:{device.profile}"
            )
        if device.among and not described and gpu.id not in device.among and gpu.mig_of not in device.among:
            raise UsageError(
                f"it asks for {device}, which may be {any_of(device.among)}, and {called} is none of these",
                cause="the label doesn't say how much memory it has",
                hint=f"--gpu {any_of([name for name in device.among if ' ' not in name])}, or a budget's `gpu`",
            )
        if device.part is not None and not described and gpu.mig_of is None:
            raise UsageError(
                f"it asks for {device}, which is {device.part}, and {called} is a whole GPU",
                hint=_SLICE_HINT if "MIG" in device.part else _PART_HINT,
            )


_SLICE_HINT = "name the slice: --gpu h100:1g.10gb"
_PART_HINT = "say what it gets in a budget: `from: FILE` with `gpu_memory: 20GiB`"


def _of(vendor: str | None) -> str:
    return f"a GPU of {_CALLED.get(vendor or '', vendor)}'s"
