"""Several processes, one tensor rank each: torchrun's environment, all-reduces, and agreeing on numbers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from kvplan.errors import UsageError
from kvplan.verify.live.mixer import Alone
from kvplan.verify.world import world_size

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
        """Everybody's object, by rank. torch's all_gather_object does the same, but needs NumPy."""
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


@contextmanager
def joined(tp: int, rank: int | None, device: torch.device) -> Iterator[Alone | Together]:
    """The ranks of this run: torchrun's, or a lone process that plays one of `tp`.

    Raises: UsageError when torchrun's processes aren't the ranks asked for, or don't find each other.
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
        raise UsageError(
            "--rank can't be given under torchrun", cause="every process is a rank of its own", hint="leave --rank out"
        )
    try:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    except (ValueError, dist.DistError) as error:
        raise UsageError(
            "the ranks can't meet", cause=str(error).splitlines()[0],
            hint=f"torchrun --nproc-per-node {tp} -m kvplan verify --tp {tp} sets what they need",
        ) from error  # fmt: skip
    try:
        ranks = Together(device)
        # NCCL takes its buffers with the first of each: here, so that no row counts them as the model's.
        ranks.add_up(torch.zeros(1, device=device))
        ranks.gather(0)
        yield ranks
        ranks.gather(0)  # so that none takes the group down while another still uses it
    finally:
        dist.destroy_process_group()


def everybody(ranks: Alone | Together, mine: Any_) -> tuple[Any_, ...]:
    """Objects of all ranks; a lone process has its own."""
    return ranks.gather(mine) if isinstance(ranks, Together) else (mine,)
