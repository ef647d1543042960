"""What follows the mixer: a dense feed-forward, or experts of which each token uses a few."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvplan.verify.live.kernels.fused import gated, is_plain
from kvplan.verify.live.layers.mixer import Build, joined
from kvplan.verify.parts import DensePart, ExpertsPart, FeedForward


class Dense(nn.Module):
    """down(silu(gate) * up), or down(gelu(up)) without a gate."""

    def __init__(self, part: DensePart, build: Build) -> None:
        super().__init__()
        self.part, self.ranks = part, build.ranks
        rows = part.width * (2 if part.gated else 1)
        self.up = build.matrix(rows, build.hidden)
        self.up_bias = build.vector(rows) if part.bias else None
        self.down = build.matrix(build.hidden, part.width)
        self.down_bias = build.vector(build.hidden) if part.out_bias else None

    def forward(self, hidden: Tensor, residual: Tensor) -> Tensor:
        """[tokens, hidden] each, added to the residual."""
        wide = functional.linear(hidden, self.up, self.up_bias)
        wide = gated(wide) if self.part.gated else functional.gelu(wide)
        return joined(wide, self.down, self.down_bias, residual, self.ranks)


class Experts(nn.Module):
    """A router, its experts in one tensor, and the experts that every token uses."""

    def __init__(self, part: ExpertsPart, build: Build) -> None:
        super().__init__()
        self.part, self.ranks = part, build.ranks
        rows = part.width * (2 if part.gated else 1)
        self.router = build.matrix(part.experts, build.hidden)
        inner = part.latent or build.hidden
        self.into = None if part.latent is None else build.matrix(inner, build.hidden)
        self.out_of = None if part.latent is None else build.matrix(build.hidden, inner)
        self.up = build.ledger.weight((part.experts, rows, inner), build.dtype, inner)
        self.down = build.ledger.weight((part.experts, inner, part.width), build.dtype, part.width)
        self.shared = Dense(DensePart(part.shared, part.gated), build) if part.shared else None
        self.shared_gate = build.matrix(1, build.hidden) if part.shared_gate else None
        self.touched: Tensor | None = None

    def forward(self, hidden: Tensor, residual: Tensor) -> Tensor:
        """[tokens, hidden] each, added to the residual."""
        part = self.part
        scores, picked = functional.linear(hidden, self.router).topk(part.picked, -1)
        shares = scores.softmax(-1)
        # Sorted by expert, each expert's tokens are one run, which ends at `ends`. No size depends on data.
        order = picked.flatten().argsort(stable=True)
        sorted_picks = picked.flatten()[order]
        experts = torch.arange(part.experts, device=hidden.device)
        ends = torch.searchsorted(sorted_picks, experts, right=True).to(torch.int32)
        self.touched = ends
        inward = hidden if self.into is None else functional.linear(hidden, self.into)
        tokens = inward[torch.div(order, part.picked, rounding_mode="floor")]
        wide = _by_expert(tokens, self.up, ends)
        wide = gated(wide) if part.gated else functional.gelu(wide)
        found = torch.empty_like(tokens)
        found[order] = _by_expert(wide, self.down, ends)
        mixed = (found.view(*picked.shape, -1) * shares.unsqueeze(-1)).sum(1)
        mixed = mixed if self.out_of is None else functional.linear(mixed, self.out_of)
        if self.shared is not None:
            mixed = self._with_shared(hidden, mixed)
        return residual + self.ranks.add_up(mixed)

    def _with_shared(self, hidden: Tensor, mixed: Tensor) -> Tensor:
        assert self.shared is not None  # noqa: S101
        wide = functional.linear(hidden, self.shared.up)
        wide = gated(wide) if self.part.gated else functional.gelu(wide)
        if self.shared_gate is not None:
            wide = wide * functional.linear(hidden, self.shared_gate).sigmoid()
        return torch.addmm(mixed, wide, self.shared.down.t())

    @property
    def in_one_launch(self) -> bool:
        """Whether both products by expert are one launch each."""
        return in_one_launch(self.up) and in_one_launch(self.down)

    def distinct(self) -> int:
        """Experts that the last step used."""
        if self.touched is None:
            return 0
        counts = torch.diff(self.touched, prepend=self.touched.new_zeros(1))
        return int((counts > 0).sum())


def _by_expert(tokens: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Tokens [n, inputs], sorted by expert, times weights [experts, outputs, inputs]. Unused experts aren't read."""
    if _GROUPED is not None and in_one_launch(weights) and not is_plain():
        return _GROUPED(tokens, weights.transpose(1, 2), offs=ends)
    runs, start = [], 0
    for expert, end in enumerate(ends.tolist()):
        if end > start:
            runs.append(tokens[start:end] @ weights[expert].t())
        start = end
    return torch.cat(runs)


_GROUPED: Callable[..., Tensor] | None = getattr(functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
"""One launch for all experts. Public since torch 2.10."""


_ALIGNED = 16
"""Row sizes must be multiples of this many bytes for grouped_mm. Source: torch 2.13 ATen/native/GroupedMMUtils.h,
"strides should be multiple of 16 bytes".
"""


def in_one_launch(weights: Tensor) -> bool:
    """Whether a product by expert is one launch. Otherwise Python needs the tokens per expert, which prevents graphs."""
    aligned = all(extent * weights.dtype.itemsize % _ALIGNED == 0 for extent in weights.shape[-2:])
    return weights.is_cuda and weights.dtype == torch.bfloat16 and aligned and _groups(weights.device)


@functools.cache
def _groups(device: torch.device) -> bool:
    """Whether the device multiplies groups of different sizes in one launch. Tried once, outside any graph."""
    if _GROUPED is None:
        return False
    tokens, weights = torch.ones((4, 16), device=device), torch.ones((2, 16, 16), device=device)
    ends = torch.tensor([1, 4], dtype=torch.int32, device=device)
    try:
        _GROUPED(tokens.bfloat16(), weights.bfloat16().transpose(1, 2), offs=ends)
        torch.cuda.synchronize(device)
    except (RuntimeError, TypeError):
        return False
    return True


def feed_forward(part: FeedForward, build: Build) -> Dense | Experts:
    """The module of a part."""
    return Dense(part, build) if isinstance(part, DensePart) else Experts(part, build)
