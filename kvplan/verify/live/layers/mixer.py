"""The interface of mixers: one rank's weights, its cache, a step, and the recomputation of everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.verify.live.kernels.attend import Query, Reader
from kvplan.verify.live.kernels.fused import Angles, angles
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.rows import Layout
from kvplan.verify.live.stored import stored


class Ranks(Protocol):
    """Tensor ranks that work together. A single process plays one of them and sums nothing."""

    @property
    def rank(self) -> int:
        """This process's rank."""

    @property
    def size(self) -> int:
        """Number of ranks that take part in sums."""

    def add_up(self, partial: Tensor) -> Tensor:
        """The sum over all ranks, in place if possible."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A single process. rank, of: the share of the model that it plays."""

    rank: int = 0
    size: int = 1

    def add_up(self, partial: Tensor) -> Tensor:
        """The tensor itself, because there are no others."""
        return partial


@dataclass(frozen=True, slots=True)
class Build:
    """What modules are made with. dtype: of weights and activations."""

    ledger: Ledger
    hidden: int
    dtype: torch.dtype
    ranks: Ranks

    def matrix(self, outputs: int, inputs: int) -> nn.Parameter:
        """Weight [outputs, inputs] of a linear layer."""
        return self.ledger.weight((outputs, inputs), self.dtype, inputs)

    def vector(self, size: int) -> nn.Parameter:
        """A norm's weight, around one."""
        return self.ledger.weight((size,), self.dtype)


@dataclass(frozen=True, slots=True)
class Caching:
    """Sizes of caches: `batch` sequences of at most `tokens` tokens."""

    batch: int
    tokens: int
    kv: KvFormat
    layout: Layout


@dataclass(slots=True)
class Step:
    """One decode step. The token of every sequence has number `position`.

    chosen: tokens that the last sparse indexer picked, for layers without one. turns: rotary angles by width.
    cache_bytes: bytes of cache that the step has read so far.
    """

    position: int
    reader: Reader
    device: torch.device
    chosen: Tensor | None = None
    turns: dict[int, Angles] = field(default_factory=dict)
    cache_bytes: int = 0

    def attend(self, query: Query) -> Tensor:
        """Read a cache."""
        self.cache_bytes += query.bytes
        return self.reader(query)

    def turn(self, rotary: int) -> Angles:
        """Angles of this position."""
        if rotary not in self.turns:
            self.turns[rotary] = angles(self.position, rotary, self.device)
        return self.turns[rotary]


Stored = dict[str, tuple[Tensor, ...]]


class Mixer(nn.Module):
    """Base class of mixers. A cache exists between `allocate` and `release`."""

    def __init__(self, build: Build, inner: int, *, out_bias: bool = False) -> None:
        super().__init__()
        self.ledger, self.ranks, self.dtype = build.ledger, build.ranks, build.dtype
        self.out = build.matrix(build.hidden, inner)
        self.out_bias = build.vector(build.hidden) if out_bias else None

    def allocate(self, caching: Caching) -> None:
        """Allocate the cache. Raises: NoRoom, Unsupported."""
        raise NotImplementedError

    def release(self) -> None:
        """Release the cache."""
        raise NotImplementedError

    def stored(self) -> Stored:
        """Live cache tensors by their growth law in kvplan.arch."""
        raise NotImplementedError

    def fill(self) -> None:
        """Fill the cache with random numbers."""
        raise NotImplementedError

    def step(self, hidden: Tensor, at: Step, residual: Tensor) -> Tensor:
        """One token [batch, hidden] of each sequence, through the cache; added to the residual."""
        raise NotImplementedError

    def full(self, hidden: Tensor) -> Tensor:
        """All tokens [batch, tokens, hidden] at once, by another algorithm and without a cache."""
        raise NotImplementedError

    def joined(self, mixed: Tensor, residual: Tensor) -> Tensor:
        """Output projection, summed over the ranks, added to the residual."""
        return joined(mixed, self.out, self.out_bias, residual, self.ranks)

    def projected_out(self, mixed: Tensor) -> Tensor:
        """Output projection of a whole sequence."""
        return _summed(mixed, self.out, self.out_bias, self.ranks)


def joined(mixed: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor, ranks: Ranks) -> Tensor:
    """The residual + mixed W' (+ bias). One kernel, unless other ranks take part."""
    if ranks.size == 1 and bias is None:
        return torch.addmm(residual, mixed, weight.t())
    return residual + _summed(mixed, weight, bias, ranks)


def _summed(mixed: Tensor, weight: Tensor, bias: Tensor | None, ranks: Ranks) -> Tensor:
    """The sum of all ranks' mixed W', and the bias once, from rank 0 as in vLLM (see kvplan.verify.reduce)."""
    return ranks.add_up(functional.linear(mixed, weight, bias if ranks.rank == 0 else None))


def per_token(hidden: Tensor, project: Callable[[Tensor], Tensor]) -> Tensor:
    """A projection of [batch, tokens, ...] token by token, with the same products as a decode step.

    Values stored in eight bits are then equal to the bit, so that a difference is the cache's and not one of rounding.
    """
    return torch.stack([project(hidden[:, token]) for token in range(hidden.shape[1])], 1)


def state(ledger: Ledger, shape: Sequence[int], format_: str | None, dtype: torch.dtype) -> Tensor:
    """A recurrent state of zeros, in the format of that name or the model's."""
    how = dtype
    if format_ is not None:
        kept = stored(FORMATS[format_], 1)
        if kept is None or not kept.native:
            raise ValueError(f"no recurrent state is kept in {format_}")
        how = kept.dtype
    return ledger.tensor(shape, how, "cache").zero_()
