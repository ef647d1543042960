"""Starts that releases with both engines leave to the first one (V0), whose rules are known of releases before 0.8 alone.

Source: engine/arg_utils.py _is_v1_supported_oracle of 0.8.0 to 0.10.2; platforms/{cuda,rocm}.py is_kv_cache_dtype_supported.
"""

from __future__ import annotations

from kvplan.engines.base import Setup
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.hardware.gpu import Gpu

BOTH: tuple[Version, Version] = ((0, 8, 0), (0, 11, 0))
"""Releases with both engines, from one up to the other."""
AMPERE = (8, 0)
HOPPER, BLACKWELL = 9, 10


def caution(setup: Setup, release: Version) -> str | None:
    """A sentence without its end where V0 serves; None where V1 does, or nothing is known of the GPU."""
    why = _why(setup, setup.gpu, release) if BOTH[0] <= release < BOTH[1] and setup.gpu is not None else None
    if why is None:
        return None
    return (
        f"vLLM {text(release)} serves this with its engine V0 ({why}) unless VLLM_USE_V1=1 makes it refuse or try: the plan is by the "
        "rules of V1"
    )


def _why(setup: Setup, gpu: Gpu | None, release: Version) -> str | None:
    if gpu is None:
        return None
    if gpu.vendor != "nvidia" and release < (0, 9, 0):
        return "it isn't on NVIDIA's GPUs"
    capability = gpu.compute_capability
    if capability is not None and capability < AMPERE and release < (0, 10, 2):
        return "a GPU of compute capability below 8.0"
    if setup.kv is not None and not _takes(setup.kv.k.name, gpu, release):
        return f"--kv-cache-dtype {setup.kv.k.name} on this GPU"
    if release < (0, 8, 3) and (setup.parallel.pp > 1 or setup.options.max_loras):
        return "pipeline stages" if setup.parallel.pp > 1 else "LoRA adapters"
    return None


def _takes(name: str, gpu: Gpu, release: Version) -> bool:
    """Whether V1 takes a cache format that is asked for: FlashAttention's fp8 on Hopper, and what came later."""
    if not name.startswith("fp8") or release < (0, 8, 2):
        return False
    if gpu.vendor != "nvidia":
        return release >= (0, 9, 0)
    majors = (HOPPER, BLACKWELL) if release >= (0, 10, 0) else (HOPPER,)
    return gpu.compute_capability is not None and gpu.compute_capability[0] in majors
