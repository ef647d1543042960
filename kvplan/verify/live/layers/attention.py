"""Softmax attention over cached keys and values: all tokens, a window as a ring, a chunk, sinks, another's cache."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kvplan.verify.live.kernels.attend import Query
from kvplan.verify.live.kernels.fused import Heads, angles, rotate, store, turned
from kvplan.verify.live.layers.mixer import Build, Caching, Mixer, Step, Stored, per_token
from kvplan.verify.live.rows import Rows
from kvplan.verify.parts import AttentionPart


class Attention(Mixer):
    """MHA, GQA and MQA. One matrix projects queries, keys, values and the output's gate."""

    def __init__(self, part: AttentionPart, build: Build, source: Attention | None = None) -> None:
        super().__init__(build, part.heads * part.v_dim, out_bias=part.out_bias)
        self.part = part
        # An attribute of a module would be registered as its child and counted twice.
        self.source = (source,)
        kv_heads = 0 if source else part.kv_heads
        self.heads = Heads(part.heads, kv_heads, part.k_dim, 0 if part.v_from_k else part.v_dim)
        gate = part.heads * part.v_dim if part.gate else 0
        self.inward = build.matrix(self.heads.width + gate, build.hidden)
        self.bias = build.vector(self.heads.width) if part.bias else None
        self.norms = (build.vector(part.k_dim), build.vector(part.k_dim)) if part.norms else None
        self.sink = build.vector(part.heads) if part.sink_logits else None
        self.rotary = part.k_dim // 2 * 2
        self.keys: Rows | None = None
        self.values: Rows | None = None
        self.remembered: tuple[Tensor, Tensor] | None = None

    def allocate(self, caching: Caching) -> None:
        """Slots for the tokens kept; nothing for a layer that reads another's cache."""
        if self.source[0] is not None:
            return
        part, layout = self.part, caching.layout
        slots = part.slots(caching.tokens)
        table = layout.table(self.ledger, caching.batch, slots)

        def rows(dim: int, *, key: bool) -> Rows:
            return Rows(
                self.ledger, batch=caching.batch, heads=part.kv_heads, slots=slots, dim=dim, layout=layout, table=table,
                format_=caching.kv.k if key else caching.kv.v, dtype=self.dtype,
            )  # fmt: skip

        self.keys, self.values = rows(part.k_dim, key=True), rows(part.v_dim, key=False)

    def release(self) -> None:
        """Forget the cache."""
        self.keys = self.values = self.remembered = None

    def stored(self) -> Stored:
        """Keys and values with their scales."""
        if self.keys is None or self.values is None:
            return {}
        return {self.part.kind: (*self.keys.tensors(), *self.values.tensors())}

    def fill(self) -> None:
        """Random keys and values."""
        for rows in (self.keys, self.values):
            if rows is not None:
                rows.fill(self.ledger)

    def slot(self, position: int) -> int:
        """Where a token's key is stored: sinks first, then a ring of the window; a chunk starts over."""
        part = self.part
        if part.chunk is not None:
            return position % part.chunk
        if part.window is None or position < part.sinks:
            return position
        return part.sinks + (position - part.sinks) % part.window

    def seen(self, position: int) -> int:
        """Slots that the token at `position` attends to, after its own key is stored."""
        part = self.part
        return position % part.chunk + 1 if part.chunk is not None else part.slots(position + 1)

    def step(self, hidden: Tensor, at: Step, residual: Tensor) -> Tensor:
        """Store this token's key and value, and attend to everything kept."""
        projected = functional.linear(hidden, self.inward)
        qkv = projected[:, : self.heads.width]
        qkv = qkv if self.bias is None else qkv + self.bias
        turn, holder = at.turn(self.rotary), self.source[0] or self
        keys, values = holder.keys, holder.values
        assert keys is not None and values is not None  # noqa: S101, PT018 - allocate comes first
        if holder is self:
            queries = store(qkv, self.heads, turn, self.norms, keys, values, self.slot(at.position))
        else:
            queries = rotate(qkv.unflatten(-1, (self.part.heads, self.part.k_dim)), turn)
        query = Query(queries, keys, values, self.seen(at.position), self.part.v_dim, self.part.k_dim**-0.5, self.sink)
        return self.joined(self._gated(at.attend(query).flatten(1), projected), residual)

    def full(self, hidden: Tensor) -> Tensor:
        """Every pair of tokens under a mask, with K and V repeated for each query head: the textbook's way."""
        part, tokens = self.part, hidden.shape[1]
        projected = per_token(hidden, lambda token: functional.linear(token, self.inward))
        qkv = projected[..., : self.heads.width]
        qkv = qkv if self.bias is None else qkv + self.bias
        if self.source[0] is None:
            assert self.keys is not None and self.values is not None  # noqa: S101, PT018
            each = [
                turned(qkv[:, token], self.heads, angles(token, self.rotary, hidden.device), self.norms)
                for token in range(tokens)
            ]
            query, key, value = (torch.stack(list(vectors), 2) for vectors in zip(*each, strict=True))
            key, value = self.keys.round_trip(key), self.values.round_trip(value)
            self.remembered = (key, value)
        else:
            asked = qkv.unflatten(-1, (part.heads, part.k_dim))
            query = torch.stack(
                [rotate(asked[:, token], angles(token, self.rotary, hidden.device)) for token in range(tokens)], 2
            )
            assert self.source[0].remembered is not None  # noqa: S101
            key, value = self.source[0].remembered
        group = part.heads // key.shape[1]
        scores = query @ key.repeat_interleave(group, 1).transpose(-1, -2) * part.k_dim**-0.5
        scores = scores.masked_fill(~self._mask(tokens, hidden.device), -torch.inf)
        if self.sink is not None:
            sinks = self.sink.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
            scores = torch.cat((scores, sinks), -1)
        weights = scores.softmax(-1)[..., :tokens]
        mixed = (weights @ value.repeat_interleave(group, 1)).transpose(1, 2).flatten(2)
        return self.projected_out(self._gated(mixed, projected))

    def _gated(self, mixed: Tensor, projected: Tensor) -> Tensor:
        return mixed * projected[..., self.heads.width :].sigmoid() if self.part.gate else mixed

    def _mask(self, tokens: int, device: torch.device) -> Tensor:
        """[query, key]: the keys that a query may see, by the definition of the kind."""
        query, key = torch.arange(tokens, device=device)[:, None], torch.arange(tokens, device=device)[None, :]
        seen = key <= query
        if self.part.chunk is not None:
            return seen & (key // self.part.chunk == query // self.part.chunk)
        if self.part.window is not None:
            return seen & ((query - key < self.part.window) | (key < self.part.sinks))
        return seen
