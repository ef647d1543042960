"""Readers of a cache: one query per sequence against everything that its cache holds.

All readers take queries [batch, heads, k_dim] and the first `slots` rows of keys and values in any order (rotary
positions are already in the keys), and return [batch, heads, v_dim]. K and V are never expanded to query heads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from kvplan.verify.live.rows import Rows

_SPAN_BYTES, _CPU_SPAN_BYTES = 2**25, 2**19
"""Of numbers in one span: large for few launches on a GPU, small enough for a CPU's cache."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a cache.

    values: None if a value is the first `v_dim` elements of its key (latent attention). sink: one logit per head that
    takes part in the softmax and has no value. chosen: slots that sparse attention reads, [batch, top k]; None for all.
    """

    queries: Tensor
    keys: Rows
    values: Rows | None
    slots: int
    v_dim: int
    scale: float
    sink: Tensor | None = None
    chosen: Tensor | None = None

    @property
    def bytes(self) -> int:
        """Bytes of cache that an answer has to read: whole rows of the slots asked for."""
        each = self.keys.slot_bytes + (0 if self.values is None else self.values.slot_bytes)
        return self.queries.shape[0] * self.slots * each

    def of(self, sequence: int) -> Query:
        """The query of one sequence."""
        only = slice(sequence, sequence + 1)
        return replace(
            self, queries=self.queries[only], keys=self.keys.of(sequence),
            values=None if self.values is None else self.values.of(sequence),
            chosen=None if self.chosen is None else self.chosen[only],
        )  # fmt: skip


Reader = Callable[[Query], Tensor]


def by_spans(query: Query) -> Tensor:
    """Split-KV attention in plain torch, for any format and layout: bounded spans, joined by a running softmax."""
    keys, batch = query.keys, query.queries.shape[0]
    exact = torch.promote_types(query.queries.dtype, torch.float32)
    asked = query.queries.to(exact).unflatten(1, (keys.heads, -1)) * query.scale
    heads_each = asked.shape[2]
    peak = asked.new_full((batch, keys.heads, heads_each, 1), -torch.inf)
    if query.sink is not None:
        peak = query.sink.to(exact).view(1, keys.heads, heads_each, 1).expand_as(peak).clone()
    total = torch.zeros_like(peak) if query.sink is None else torch.ones_like(peak)
    mixed = asked.new_zeros((batch, keys.heads, heads_each, query.v_dim))
    room = _SPAN_BYTES if asked.is_cuda else _CPU_SPAN_BYTES
    width = max(1, room // (batch * keys.heads * keys.dim * exact.itemsize))
    for start in range(0, query.slots, width):
        key, value = span(query, start, min(start + width, query.slots), exact)
        scores = asked @ key.transpose(-1, -2)
        higher = torch.maximum(peak, scores.amax(-1, keepdim=True))
        weights, kept = torch.exp(scores - higher), torch.exp(peak - higher)
        total = total * kept + weights.sum(-1, keepdim=True)
        mixed = mixed * kept + weights @ value
        peak = higher
    return (mixed / total).flatten(1, 2).to(query.queries.dtype)


def span(query: Query, start: int, stop: int, exact: torch.dtype) -> tuple[Tensor, Tensor]:
    """Keys and values [batch, heads, stop - start, dim] of consecutive slots of those that are read."""
    if query.chosen is None:
        key = query.keys.read(start, stop).to(exact)
        value = key[..., : query.v_dim] if query.values is None else query.values.read(start, stop).to(exact)
        return key, value
    at = query.chosen[:, start:stop]
    key = query.keys.picked(at).to(exact)
    return key, key[..., : query.v_dim] if query.values is None else query.values.picked(at).to(exact)


def by_sdpa(query: Query) -> Tensor:
    """Fused attention of torch with grouped heads, for contiguous caches in 16 or 32 bit with separate values.

    Raises: RuntimeError on a GPU whose flash attention doesn't accept them, because torch's fallback repeats K and V
    for every query head.
    """
    if query.values is None:
        raise ValueError("values are part of the keys")
    key, value = query.keys.read(0, query.slots), query.values.read(0, query.slots)
    asked = query.queries.unsqueeze(2)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION) if asked.is_cuda else nullcontext():
        found = functional.scaled_dot_product_attention(asked, key, value, scale=query.scale, enable_gqa=True)
    return found.squeeze(2)


def sdpa_can(query: Query) -> bool:
    """Whether torch's fused attention can read this cache as it is."""
    if query.values is None or query.sink is not None or query.chosen is not None:
        return False
    contiguous = query.keys.table is None and query.values.table is None
    as_stored = query.keys.elements.dtype == query.values.elements.dtype == query.queries.dtype
    return contiguous and as_stored and query.keys.dim == query.values.dim
