"""Whether vLLM's rules say anything of a device."""

from __future__ import annotations

from kvplan.engines.vllm.tables.devices import ELSEWHERE, PLATFORMS, Platform
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed, Unsupported
from kvplan.hardware.gpu import Gpu


def platform_of(gpu: Gpu, release: Version) -> Platform:
    """The platform of a release that runs on the device.

    Raises: Unsupported for a vendor whose platform wasn't read; NotServed for a GPU older than published builds begin at.
    """
    found = PLATFORMS.get(gpu.vendor)
    if found is None or not gpu.architecture.startswith(found.architectures or ("",)):
        raise Unsupported(
            f"kvplan has no rules for vLLM on {gpu.id}",
            cause=ELSEWHERE.get(gpu.vendor, "vLLM has no platform for it") + "; what was read are CUDA, ROCm and XPU",
            hint="--engine ideal",
        )
    least = max((capability for since, capability in found.least if since <= release), default=(0, 0))
    if gpu.compute_capability is not None and gpu.compute_capability < least:
        raise _too_old(gpu, gpu.compute_capability, found, release)
    return found


def _too_old(gpu: Gpu, own: tuple[int, int], platform: Platform, release: Version) -> NotServed:
    """A GPU that no published build of the release has kernels for."""
    stopped, least = next((since, least) for since, least in platform.least if own < least)
    before = [since for since, least in platform.least if own >= least and since < stopped]
    return NotServed(
        f"vLLM {text(release)} has no kernels for {gpu.id}",
        cause=f"its compute capability is {own[0]}.{own[1]}, and published builds begin at {least[0]}.{least[1]}"
        + (f" since {text(stopped)}" if before else ""),
        hint=f"an --engine vllm@ before {text(stopped)}, or --engine ideal" if before else "--engine ideal",
    )
