"""Every byte that a verification takes goes through one ledger, which refuses what was not asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvplan.units import format_bytes


class NoRoom(Exception):
    """An allocation would pass the limit. `short` is by how many bytes."""

    def __init__(self, account: str, asked: int, room: int) -> None:
        super().__init__(f"{account} asks for {format_bytes(asked)} where {format_bytes(room)} are left")
        self.account, self.asked, self.room = account, asked, room

    @property
    def short(self) -> int:
        """Bytes missing."""
        return self.asked - self.room


class OutOfMemory(Exception):
    """The system gave a CPU no memory, which torch says in a RuntimeError like any other."""


OUT_OF_ROOM = (NoRoom, OutOfMemory, torch.OutOfMemoryError)
"""What it means that something doesn't fit."""


def no_memory(error: BaseException) -> bool:
    """Whether an error of a CPU's is for want of memory. Source: torch 2.13 c10/core/impl/alloc_cpu.cpp."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error))


_FRESH = 2**22 - 3
"""A prime number, so that no two rows of a matrix are alike but far apart."""


class Ledger:
    """Tensors of one device by account ("weights", "cache", ...), together never above `limit` bytes.

    limit None: the device's own. seed: of everything random.
    """

    def __init__(self, device: torch.device, limit: int | None, seed: int = 0) -> None:
        self.device = device
        self.limit = limit
        # Nothing is random on the meta device: tensors there have sizes and no contents.
        self.random = torch.Generator("cpu" if device.type == "meta" else device).manual_seed(seed)
        self._tensors: dict[str, list[Tensor]] = {}

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, account: str) -> Tensor:
        """An uninitialised tensor.

        Raises: NoRoom, before anything is allocated; OutOfMemory, torch.OutOfMemoryError.
        """
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        if self.limit is not None and size > self.limit - self.taken():
            raise NoRoom(account, size, self.limit - self.taken())
        try:
            made = torch.empty(tuple(shape), dtype=dtype, device=self.device)
        except (MemoryError, RuntimeError) as error:
            if no_memory(error):
                raise OutOfMemory(f"{account} asks for {format_bytes(size)}, and the system has no more") from error
            raise
        self._tensors.setdefault(account, []).append(made)
        return made

    def weight(
        self, shape: Sequence[int], dtype: torch.dtype, fan_in: int | None = None, account: str = "weights"
    ) -> torch.nn.Parameter:
        """A random weight: uniform with variance 1 / fan_in, or around one for a norm (fan_in None).

        Raises: NoRoom.
        """
        made = self.tensor(shape, dtype, account)
        low, high = (0.9, 1.1) if fan_in is None else (-((3 / fan_in) ** 0.5), (3 / fan_in) ** 0.5)
        if self.device.type != "meta":
            self._fill(made.view(-1), low, high)
        return torch.nn.Parameter(made, requires_grad=False)

    def _fill(self, flat: Tensor, low: float, high: float) -> None:
        """Random numbers; on a CPU, which takes seconds for a gigabyte of them, the first ones over and over."""
        fresh = flat[:_FRESH] if self.device.type == "cpu" else flat
        fresh.uniform_(low, high, generator=self.random)
        done = len(fresh)
        while done < len(flat):
            more = min(done, len(flat) - done)
            flat[done : done + more].copy_(flat[:more])
            done += more

    @property
    def accounts(self) -> tuple[str, ...]:
        """Accounts that have tensors."""
        return tuple(self._tensors)

    def tensors(self, account: str) -> tuple[Tensor, ...]:
        """Live tensors of an account."""
        return tuple(self._tensors.get(account, ()))

    def taken(self, account: str | None = None) -> int:
        """Bytes of live tensors, counted from the tensors themselves."""
        accounts = self._tensors if account is None else (account,)
        return sum(bytes_of(self.tensors(name)) for name in accounts)

    def release(self, account: str) -> None:
        """Forget an account; memory returns once nobody else holds its tensors."""
        self._tensors.pop(account, None)


def bytes_of(tensors: Sequence[Tensor]) -> int:
    """sum(numel * itemsize), each tensor once."""
    once = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in once.values())
