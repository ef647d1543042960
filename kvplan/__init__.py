"""KV-cache planning: what a model's cache costs, what fits on these GPUs, how fast it can decode.

    >>> import kvplan
    >>> report = kvplan.size("llama-3-70b", contexts=[8192])
    >>> report.cache.bytes_per_token
    327680

Everything is loaded when it is first used, so importing kvplan costs nothing: kvplan.api holds the functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api import (
        FitQuestion,
        compare,
        engines,
        env,
        fit,
        fit_all,
        gpus,
        load_gpu,
        load_model,
        models,
        size,
        to_json,
        weigh,
    )
    from kvplan.arch.model import Model
    from kvplan.arch.parallel import Parallel
    from kvplan.engines.base import Options
    from kvplan.errors import KvplanError
    from kvplan.hardware.gpu import Gpu

__version__ = "0.1.0"

__all__ = [
    "FitQuestion",
    "Gpu",
    "KvplanError",
    "Model",
    "Options",
    "Parallel",
    "compare",
    "engines",
    "env",
    "fit",
    "fit_all",
    "gpus",
    "load_gpu",
    "load_model",
    "models",
    "size",
    "to_json",
    "weigh",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module("kvplan.hardware.gpu" if name == "Gpu" else "kvplan.api"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
