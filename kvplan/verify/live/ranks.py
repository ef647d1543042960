"""Several processes, one tensor rank each: joining them, all-reduces, and agreeing on numbers."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from kvplan.errors import UsageError
from kvplan.verify.live.layers.mixer import Alone, Ranks
from kvplan.verify.torchrun import world_size

Any_ = TypeVar("Any_")


class Together:
    """All ranks of a torch.distributed group."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device

    def add_up(self, partial: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        dist.all_reduce(partial)
        return partial

    def gather(self, mine: Any_) -> tuple[Any_, ...]:
        """The objects of all ranks, in order. torch's all_gather_object does the same, but needs NumPy."""
        written = torch.frombuffer(bytearray(pickle.dumps(mine)), dtype=torch.uint8)
        sizes = self._each(torch.tensor([len(written)], device=self.device))
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8, device=self.device)
        padded[: len(written)] = written
        parts = self._each(padded)
        whole = (bytes(part[: int(size)].tolist()) for part, size in zip(parts, sizes, strict=True))
        return tuple(pickle.loads(one) for one in whole)  # noqa: S301 - what processes of this same run wrote

    def _each(self, mine: Tensor) -> list[Tensor]:
        found = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(found, mine)
        return found


_MEET_S = 30.0
"""Seconds that ranks may take to start, beyond the time of the whole run, before one stops waiting for another."""


@contextmanager
def joined(tp: int, rank: int | None, device: torch.device, budget_s: float) -> Iterator[Alone | Together]:
    """The ranks of this run: torchrun's, or a single process that plays one of `tp`.

    Raises: UsageError if torchrun's processes aren't the ranks asked for, don't find each other, or one leaves early.
    """
    if world_size() == 1:
        yield Alone(rank or 0)
        return
    if world_size() != tp:
        raise UsageError(
            f"torchrun started {world_size()} processes for --tp {tp}",
            hint=f"every process is a tensor rank: --tp {world_size()}, or torchrun --nproc-per-node {tp}",
        )
    if rank is not None:
        raise UsageError(
            "--rank can't be given under torchrun", cause="every process is a rank of its own", hint="leave --rank out"
        )
    # Its functions bind the current group as default arguments, for good, and the first TorchDispatchMode imports it. With
    # a group by then, that group would never end, and its threads would abort the process at exit.
    with contextlib.suppress(ImportError):
        importlib.import_module("torch.distributed.nn")
    try:
        store = _meet(device, timedelta(seconds=_MEET_S + budget_s))
        ranks = Together(device)
        # NCCL allocates its buffers with the first of each. Here, no row counts them as the model's.
        ranks.add_up(torch.zeros(1, device=device))
        ranks.gather(0)
    except (ValueError, RuntimeError) as error:
        _part()
        raise UsageError(
            "the ranks can't meet", cause=_first_line(error),
            hint=f"torchrun --nproc-per-node {tp} -m kvplan verify --tp {tp} sets what they need",
        ) from error  # fmt: skip
    try:
        yield ranks
    except BaseException as error:
        if not _of_others(error):
            _leave_word(store, ranks.rank, error)
            raise
        raise _left(store, ranks, error) from error
    finally:
        _part()


def _meet(device: torch.device, patience: timedelta) -> dist.Store:
    """Find the other ranks by torchrun's environment. Returns the store in which they leave each other messages.

    Both steps together take at most `patience` seconds, which is also how long ranks wait for each other later.
    """
    deadline = time.monotonic() + patience.total_seconds()
    store, rank, size = _store(patience)
    store.set_timeout(timedelta(seconds=max(1.0, deadline - time.monotonic())))
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend, store=dist.PrefixStore("group", store), rank=rank, world_size=size, timeout=patience
    )
    store.set_timeout(patience)
    return store


_Met = tuple[dist.Store, int, int]


def _store(patience: timedelta) -> _Met:
    """The store where ranks meet, this rank, and their number.

    It is opened in a thread, because torch tries an address that doesn't answer for more than twice the time it is
    given.

    Raises: RuntimeError when the time is over, and torch's own.
    """
    found: list[_Met] = []
    failed: list[Exception] = []

    def find() -> None:
        try:
            found.append(next(dist.rendezvous("env://", timeout=patience)))
        except Exception as error:
            failed.append(error)

    looking = threading.Thread(target=find, daemon=True)
    looking.start()
    looking.join(patience.total_seconds() + 1.0)  # torch's own message says more, where it comes in time
    if failed:
        raise failed[0]
    if not found:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RuntimeError(f"nobody answers at {where} (MASTER_ADDR, MASTER_PORT)")
    return found[0]


def _part() -> None:
    """Close the group, whatever became of the others."""
    if dist.is_initialized():
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def _of_others(error: BaseException) -> bool:
    """Whether an error says that another rank didn't answer. gloo's are plain RuntimeErrors that name its files."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "/gloo/" in str(error))


def _leave_word(store: dist.Store, rank: int, error: BaseException) -> None:
    """Tell the other ranks why, if there is memory for it and anyone to tell."""
    with contextlib.suppress(RuntimeError, MemoryError):
        store.set(f"left/{rank}", _first_line(error) or type(error).__name__)


def _left(store: dist.Store, ranks: Together, error: BaseException) -> UsageError:
    for rank in range(ranks.size):
        with contextlib.suppress(RuntimeError):
            if store.check([f"left/{rank}"]):
                because = store.get(f"left/{rank}").decode(errors="replace")
                return UsageError(f"rank {rank} left", cause=because, hint="what it printed says more; start all again")
    return UsageError(
        "another rank left", cause=_first_line(error),
        hint="what it printed says why; one that was killed prints nothing (dmesg names what ran out of memory)",
    )  # fmt: skip


def _first_line(error: BaseException) -> str | None:
    return next(iter(str(error).splitlines()), None)


def in_time(ranks: Ranks, deadline: float) -> bool:
    """Whether time.monotonic() is before the deadline on all ranks."""
    return all(everybody(ranks, time.monotonic() < deadline))


def everybody(ranks: Ranks, mine: Any_) -> tuple[Any_, ...]:
    """Objects of all ranks; those of a single process are its own."""
    return ranks.gather(mine) if isinstance(ranks, Together) else (mine,)
