"""KV-cache planning: what a model's cache costs, what fits on these GPUs, how fast it can decode.

    >>> import kvplan
    >>> report = kvplan.size("llama-3-70b", contexts=[8192])
    >>> report.cache.bytes_per_token
    327680

Everything here is defined in kvplan.api and loaded when it is first used, so importing kvplan costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api import (
        FitQuestion,
        Gpu,
        KvplanError,
        Model,
        Options,
        Parallel,
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
    )

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
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from kvplan import api

    found = getattr(api, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
