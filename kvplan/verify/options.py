"""The options of a verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvplan.arch.formats import KvFormat

Progress = Callable[[float, str], None]
"""Called with the share of the run that is done, 0 to 1, and what comes next."""


HELD_FORMATS = (
    "fp32", "bf16", "fp16", "fp8", "fp8_e5m2", "int8", "fp8_per_token_head", "int8_per_token_head", "mxfp8", "q8_0",
)  # fmt: skip
"""Cache formats that can be asked for, because a torch dtype holds them. kvplan.verify.live.stored says how."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to verify, and how.

    device: auto, cpu, cuda or cuda:N. tp, rank: the share of the model; rank None is 0, or torchrun's. kv: cache
    format, None for the model's own. page: tokens of a cache page, None for contiguous caches. layers: most layers to
    build. batches, contexts: steps to time, empty for a ladder that fits. memory: most bytes to take on the device,
    None for a share of what is free. budget_s: seconds that the run may take, roughly.
    """

    device: str = "auto"
    tp: int = 1
    rank: int | None = None
    kv: KvFormat | None = None
    page: int | None = None
    layers: int | None = None
    batches: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()
    memory: int | None = None
    budget_s: float = 60.0
    seed: int = 0


def silent(_done: float, _next: str) -> None:
    """Progress that isn't shown."""
