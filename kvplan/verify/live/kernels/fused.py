"""The small steps between matrix products, in plain torch or as one Triton kernel each.

A decode step reads gigabytes in milliseconds. A dozen tiny kernels per layer would cost as much again, so that on a GPU
they are fused. `use_triton` chooses the set; both compute the same. A kernel that doesn't run here is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from kvplan.verify.live.rows import Rows

EPS = 1e-6


@dataclass(slots=True)
class _Kernels:
    """Whether Triton's kernels are used, except those left out. plain: whether to use plain torch for everything."""

    on: bool = False
    plain: bool = False
    left_out: set[str] = field(default_factory=set)


_kernels = _Kernels()


def use_triton(*, on: bool) -> None:
    """Use all Triton kernels (on a GPU where Triton compiles), or plain torch."""
    _kernels.on = on
    _kernels.left_out.clear()


def uses_triton() -> bool:
    """Whether the Triton kernels are used."""
    return _kernels.on


def leave_out(name: str) -> None:
    """Use plain torch in place of one kernel ("store", "advance") until `use_triton` is called again."""
    _kernels.left_out.add(name)


@contextmanager
def plain() -> Iterator[None]:
    """A context with plain torch for everything, experts one by one."""
    before = _kernels.on, _kernels.plain
    _kernels.on, _kernels.plain = False, True
    try:
        yield
    finally:
        _kernels.on, _kernels.plain = before


def is_plain() -> bool:
    """Whether plain torch is used for everything."""
    return _kernels.plain


def _uses(name: str) -> bool:
    return _kernels.on and name not in _kernels.left_out


@dataclass(frozen=True, slots=True)
class Angles:
    """cos and sin [rotary / 2] of one position."""

    cos: Tensor
    sin: Tensor


def angles(position: int, rotary: int, device: torch.device) -> Angles:
    """Rotary angles of a position, theta 10,000: RoFormer, arXiv:2104.09864."""
    rates = 10_000.0 ** (-torch.arange(0, rotary, 2, dtype=torch.float64) / rotary)
    turned = rates * position
    return Angles(turned.cos().float().to(device), turned.sin().float().to(device))


def rotate(vectors: Tensor, turn: Angles) -> Tensor:
    """Rotate the first elements of each vector. The two halves of the rotary part are pairs."""
    half = turn.cos.shape[-1]
    cos, sin = turn.cos.to(vectors.dtype), turn.sin.to(vectors.dtype)
    one, two, rest = vectors[..., :half], vectors[..., half : 2 * half], vectors[..., 2 * half :]
    return torch.cat((one * cos - two * sin, two * cos + one * sin, rest), -1)


def normed(vectors: Tensor, weight: Tensor) -> Tensor:
    """RMS norm over the last dimension."""
    return functional.rms_norm(vectors, weight.shape, weight, EPS)


@dataclass(frozen=True, slots=True)
class Heads:
    """How one projected vector [batch, (heads + kv_heads) * k_dim + kv_heads * v_dim] is split.

    v_dim: 0 if values are the projected keys.
    """

    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int

    @property
    def width(self) -> int:
        """Elements of the projected vector."""
        return (self.heads + self.kv_heads) * self.k_dim + self.kv_heads * self.v_dim

    def split(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys, values, each [..., heads, dim]."""
        sizes = (self.heads * self.k_dim, self.kv_heads * self.k_dim, self.kv_heads * self.v_dim)
        query, key, value = projected.split(sizes, -1)
        return (
            query.unflatten(-1, (self.heads, self.k_dim)),
            key.unflatten(-1, (self.kv_heads, self.k_dim)),
            (value if self.v_dim else key).unflatten(-1, (self.kv_heads, self.v_dim or self.k_dim)),
        )


def turned(
    projected: Tensor, heads: Heads, turn: Angles, norms: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values after the norms of q and k and the rotation."""
    query, key, value = heads.split(projected)
    if norms is not None:
        query, key = normed(query, norms[0]), normed(key, norms[1])
    return rotate(query, turn), rotate(key, turn), value


def store(
    projected: Tensor,
    heads: Heads,
    turn: Angles,
    norms: tuple[Tensor, Tensor] | None,
    keys: Rows,
    values: Rows,
    slot: int,
) -> Tensor:
    """Rotate, write this token's K and V into the cache, and return the queries [batch, heads, k_dim]."""
    if _uses("store") and kernel_stores(keys, values):
        from kvplan.verify.live.kernels.triton_fused import store as store_kernel

        return store_kernel(projected, heads, turn, norms, keys, values, slot)
    query, key, value = turned(projected, heads, turn, norms)
    keys.write(slot, key)
    values.write(slot, value)
    return query


_NEEDS = {torch.float8_e4m3fn: (8, 9)}
"""Least compute capability for Triton to convert to a dtype: Ada. Source: Triton 3.6, min_dot_size and fp8 of its
compiler.
"""


def kernel_stores(*kept: Rows | None) -> bool:
    """Whether the kernel can write such rows on their device: by dtype, with one scale per row or none."""
    return all(rows is None or _kernel_stores(rows) for rows in kept)


def _kernel_stores(rows: Rows) -> bool:
    dtype, capability = rows.elements.dtype, _capability(rows.elements.device)
    if dtype == torch.float8_e5m2 or (capability is not None and capability < _NEEDS.get(dtype, (0, 0))):
        return False
    return rows.how.group in (None, rows.dim) and rows.how.scale in (None, torch.float32)


@functools.cache
def _capability(device: torch.device) -> tuple[int, int] | None:
    """Compute capability of a GPU; None for other devices."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else None


def gated(both: Tensor) -> Tensor:
    """silu(gate) * up of [..., gate and up side by side]."""
    if _uses("gated"):
        from kvplan.verify.live.kernels.triton_fused import gated as gated_kernel

        return gated_kernel(both)
    gate, up = both.chunk(2, -1)
    return functional.silu(gate) * up


def advance(
    state: Tensor, key: Tensor, value: Tensor, query: Tensor, decay: Tensor, write: Tensor, *, erase: bool
) -> Tensor:
    """One step of a linear recurrence, in place, and what the query reads from it.

    state [batch, heads, k, v]; key, query [batch, heads, k]; value [batch, heads, v]; decay, write [batch, heads].
    erase False (Mamba-2, arXiv:2405.21060): S = decay S + write k v'.
    erase True (gated delta rule, arXiv:2412.06464): S = decay S + write k (v - (decay S)' k)'.
    """
    if _uses("advance"):
        from kvplan.verify.live.kernels.triton_fused import advance as advance_kernel

        return advance_kernel(state, key, value, query, decay, write, erase=erase)
    exact = torch.promote_types(state.dtype, torch.float32)
    kept = state.to(exact) * decay.to(exact)[..., None, None]
    key, value, query = key.to(exact), value.to(exact), query.to(exact)
    if erase:
        value = value - torch.einsum("bhkv,bhk->bhv", kept, key)
    kept += key.unsqueeze(-1) * (value * write.to(exact).unsqueeze(-1)).unsqueeze(-2)
    state.copy_(kept)
    return torch.einsum("bhkv,bhk->bhv", kept, query)
