"""The small steps between matrix products: plain torch, or one Triton kernel each where Triton runs.

A decode step reads gigabytes in milliseconds; a dozen tiny kernels a layer would cost as much again, so on a GPU
they are joined. `use_triton` says once which set is used; both compute the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kvplan.verify.live.rows import Rows

EPS = 1e-6
_state = {"triton": False}


def use_triton(*, on: bool) -> None:
    """Choose the Triton kernels (a GPU where Triton compiles) or plain torch."""
    _state["triton"] = on


def uses_triton() -> bool:
    """Whether the Triton kernels are in use."""
    return _state["triton"]


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
    """Rotate the first elements of each vector; the two halves of the rotary part are pairs."""
    half = turn.cos.shape[-1]
    cos, sin = turn.cos.to(vectors.dtype), turn.sin.to(vectors.dtype)
    one, two, rest = vectors[..., :half], vectors[..., half : 2 * half], vectors[..., 2 * half :]
    return torch.cat((one * cos - two * sin, two * cos + one * sin, rest), -1)


def normed(vectors: Tensor, weight: Tensor) -> Tensor:
    """RMS norm over the last dimension."""
    return functional.rms_norm(vectors, weight.shape, weight, EPS)


@dataclass(frozen=True, slots=True)
class Heads:
    """How one projected vector [batch, (heads + kv_heads) * k_dim + kv_heads * v_dim] splits.

    v_dim 0: nothing is projected for values, which are the keys as projected.
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
    """Rotate, write K and V of this token into the cache, give the queries [batch, heads, k_dim]."""
    if uses_triton() and _kernel_stores(keys) and _kernel_stores(values):
        from kvplan.verify.live.triton_fused import store as store_kernel

        return store_kernel(projected, heads, turn, norms, keys, values, slot)
    query, key, value = turned(projected, heads, turn, norms)
    keys.write(slot, key)
    values.write(slot, value)
    return query


def _kernel_stores(rows: Rows) -> bool:
    return rows.how.group in (None, rows.dim) and rows.how.scale in (None, torch.float32)


def gated(both: Tensor) -> Tensor:
    """silu(gate) * up of [..., gate and up side by side]."""
    if uses_triton():
        from kvplan.verify.live.triton_fused import gated as gated_kernel

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
    if uses_triton():
        from kvplan.verify.live.triton_fused import advance as advance_kernel

        return advance_kernel(state, key, value, query, decay, write, erase=erase)
    exact = torch.promote_types(state.dtype, torch.float32)
    kept = state.to(exact) * decay.to(exact)[..., None, None]
    key, value, query = key.to(exact), value.to(exact), query.to(exact)
    if erase:
        value = value - torch.einsum("bhkv,bhk->bhv", kept, key)
    kept += key.unsqueeze(-1) * (value * write.to(exact).unsqueeze(-1)).unsqueeze(-2)
    state.copy_(kept)
    return torch.einsum("bhkv,bhk->bhv", kept, query)
