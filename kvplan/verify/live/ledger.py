"""The ledger of a verification: every byte goes through it, and it refuses what exceeds the limit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvplan.units import format_bytes


class NoRoom(Exception):
    """An allocation would exceed the limit by `short` bytes."""

    def __init__(self, account: str, asked: int, room: int) -> None:
        super().__init__(f"{account} asks for {format_bytes(asked)} where {format_bytes(room)} are left")
        self.account, self.asked, self.room = account, asked, room

    @property
    def short(self) -> int:
        """Bytes missing."""
        return self.asked - self.room


class OutOfMemory(Exception):
    """A CPU has no memory left, which torch reports as a plain RuntimeError."""


OUT_OF_ROOM = (NoRoom, OutOfMemory, torch.OutOfMemoryError)
"""Errors of an allocation that doesn't fit."""


def no_memory(error: BaseException) -> bool:
    """Whether an error on a CPU is for lack of memory. Source: torch 2.13 c10/core/impl/alloc_cpu.cpp."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error))


_FRESH = 2**22 - 3
"""A prime number, so that rows of a matrix are equal only if they are far apart."""


class Ledger:
    """Tensors of one device by account ("weights", "cache", ...), together at most `limit` bytes.

    limit: None for the device's own. seed: of all random numbers.
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
        """Random numbers. On a CPU, which takes seconds for a gigabyte of them, the first ones are repeated."""
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
        """Bytes of live tensors, counted on the tensors themselves."""
        accounts = self._tensors if account is None else (account,)
        return sum(bytes_of(self.tensors(name)) for name in accounts)

    def release(self, account: str) -> None:
        """Forget an account. Its memory is free once nothing else refers to its tensors."""
        self._tensors.pop(account, None)


def bytes_of(tensors: Sequence[Tensor]) -> int:
    """sum(numel * itemsize), each tensor once."""
    once = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in once.values())
