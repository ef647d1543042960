"""Chooses the fastest reader of a cache: all that can read it are tried, and the fastest is kept."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from kvplan.verify.live.clock import graphed, median, wait
from kvplan.verify.live.kernels.attend import Query, Reader, by_sdpa, by_spans, sdpa_can

_SPEED_TRIES = 5
PLAIN = "torch spans"
FLASH = "torch sdpa"
FAST = (FLASH, "triton")
"""Prefixes of the names of readers at memory speed. On a GPU torch's is flash attention, or fails."""


@dataclass(frozen=True, slots=True)
class Named:
    """A reader and its name in a receipt."""

    name: str
    read: Reader


def triton_works(device: torch.device) -> str | None:
    """None if Triton kernels compile and run on the device; otherwise why not."""
    if device.type != "cuda":
        return "Triton needs a GPU"
    try:
        from kvplan.verify.live.kernels.triton_fused import gated

        gated(torch.ones((1, 32), device=device, dtype=torch.bfloat16))
        wait(device)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return None


def candidates(query: Query, *, triton: bool) -> list[Named]:
    """Readers that can read this cache; plain torch comes last."""
    found = []
    if triton:
        from kvplan.verify.live.kernels.triton_attend import by_triton, triton_can, tunings

        if triton_can(query):
            found += [
                Named(f"triton {tuning}", functools.partial(by_triton, tuning=tuning)) for tuning in tunings(query)
            ]
    if sdpa_can(query):
        found.append(Named(FLASH, by_sdpa))
    return [*found, Named(PLAIN, by_spans)]


class Fastest:
    """A reader that tries the candidates on the first large query of each kind and keeps the fastest.

    `chosen` says which, by kind. deadline: time.monotonic() after which no more are tried, because compiling each takes
    seconds.
    """

    def __init__(self, device: torch.device, *, triton: bool, deadline: float = math.inf) -> None:
        self.device, self.triton, self.deadline = device, triton, deadline
        self._by_kind: dict[tuple[object, ...], Reader] = {}
        self.chosen: dict[str, str] = {}

    def __call__(self, query: Query) -> Tensor:
        """Read."""
        kind = kind_of(query)
        reader = self._by_kind.get(kind)
        if reader is None:
            named = self._pick(query)
            reader = self._by_kind[kind] = named.read
            self.chosen[" ".join(str(part) for part in kind)] = named.name
        return reader(query)

    def _pick(self, query: Query) -> Named:
        able = candidates(query, triton=self.triton)
        if len(able) == 1:
            return able[0]
        plain = able[-1]
        if self.device.type != "cuda" and time.monotonic() > self.deadline:
            return plain
        if self.device.type == "cuda":
            able = able[:-1]  # plain torch converts everything to 32 bit: never the fastest on a GPU
        times: list[tuple[float, int]] = []
        for place, named in enumerate(able):
            if times and time.monotonic() > self.deadline:
                break
            try:
                times.append((self._seconds(named, query), place))
            except torch.OutOfMemoryError:
                raise
            except Exception:  # noqa: S112 - a kernel that doesn't compile here is no candidate
                continue
        return able[min(times)[1]] if times else plain

    def _seconds(self, named: Named, query: Query) -> float:
        """Seconds of one read in a graph, as in a step. Outside a graph, Python's launches would decide."""
        work, _ = graphed(functools.partial(named.read, query), self.device)
        seconds = median(work, self.device, _SPEED_TRIES, warm=1)
        del work
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # a graph keeps its memory to itself, and a check may run with just enough
        return seconds


def kind_of(query: Query) -> tuple[object, ...]:
    """Queries for which the same reader is best: equal shapes and formats, caches of lengths within a factor of eight.

    The length asked for doesn't count: all contexts of a batch are read from one cache by one reader, and so lie on one
    line.
    """
    keys = query.keys
    long = (keys.slots.bit_length() + 1) // 3
    sort = "latent" if query.values is None else "kv"
    return (
        sort, f"{query.queries.shape[0]}x{query.queries.shape[1]}/{keys.heads}", f"{keys.dim}+{query.v_dim}",
        str(keys.elements.dtype).removeprefix("torch."), f"page {keys.layout.page}", f"2^{3 * long}",
        "sink" if query.sink is not None else "", "chosen" if query.chosen is not None else "",
    )  # fmt: skip
