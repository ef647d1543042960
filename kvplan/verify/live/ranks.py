"""Several processes, one tensor rank each: torchrun's environment, all-reduces, and agreeing on numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from kvplan.errors import UsageError
from kvplan.verify.live.mixer import Alone

Any_ = TypeVar("Any_")


class Together:
    """All ranks of a torch.distributed group."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def add_up(self, partial: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        dist.all_reduce(partial)
        return partial

    def gather(self, mine: Any_) -> tuple[Any_, ...]:
        """Everybody's object, by rank."""
        found: list[Any_ | None] = [None] * self.size
        dist.all_gather_object(found, mine)
        return tuple(one for one in found if one is not None)


def world_size() -> int:
    """Processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(tp: int, rank: int | None, device: torch.device) -> Iterator[Alone | Together]:
    """The ranks of this run: torchrun's, or a lone process that plays one of `tp`.

    Raises: UsageError when torchrun's processes aren't the ranks asked for.
    """
    if world_size() == 1:
        yield Alone(rank or 0)
        return
    if world_size() != tp:
        raise UsageError(
            f"torchrun started {world_size()} processes for --tp {tp}",
            hint=f"torchrun --nproc-per-node {tp} -m kvplan verify --tp {tp}",
        )
    if rank is not None:
        raise UsageError("--rank can't be given under torchrun", cause="every process is a rank of its own")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Together()
    finally:
        dist.destroy_process_group()


def everybody(ranks: Alone | Together, mine: Any_) -> tuple[Any_, ...]:
    """Objects of all ranks; a lone process has its own."""
    return ranks.gather(mine) if isinstance(ranks, Together) else (mine,)
