"""Shares of a GPU's memory that vLLM never gets, whatever else is on it."""

from __future__ import annotations

from kvplan.engines.base import Options
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import WontStart

COMPARED: Version = (0, 9, 1)
"""The first release that was read in which a worker compares what it asks for with what is free."""


def check(options: Options, release: Version) -> None:
    """Nothing, if the share leaves anything at all: the worker's own CUDA context takes some before it looks.

    Source: vLLM 0.33 v1/worker/utils.py request_memory, which runs whatever kv_cache_memory_bytes says.

    Raises: WontStart.
    """
    if options.utilization is None or options.utilization < 1 or release < COMPARED:
        return
    raise WontStart(
        f"vLLM {text(release)} doesn't start with gpu_memory_utilization {options.utilization:g}",
        cause="Free memory on device on startup is less than desired GPU memory utilization: a process's own context "
        "always takes some of the memory",
        hint="a share of 0.95, or less",
    )
