"""Multi-head latent attention with absorbed projections, dense or sparse: DeepSeek-V2, arXiv:2405.04434; DeepSeek-V3.2.

The cache holds one latent and one rotary key per token. Queries are projected into the latent space and results out of
it, so that a step reads the latent once for all heads. `full` expands it to heads, as training does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvplan.verify.live.kernels.attend import Query
from kvplan.verify.live.kernels.fused import Angles, angles, normed, rotate
from kvplan.verify.live.layers.mixer import Build, Caching, Mixer, Step, Stored
from kvplan.verify.live.rows import Layout, Rows
from kvplan.verify.parts import IndexerPart, LatentPart

_SPAN = 16_384


class _Inward(NamedTuple):
    """A token's projections: queries of all heads, the compressed query, and the row for the cache."""

    query: Tensor
    compressed: Tensor
    row: Tensor


class Indexer(nn.Module):
    """Small keys that are scored against small queries: sum over heads of weight x relu(q k)."""

    def __init__(self, part: IndexerPart, q_rank: int, rope_dim: int, build: Build) -> None:
        super().__init__()
        self.part, self.rotary, self.ledger, self.dtype = part, min(rope_dim, part.dim), build.ledger, build.dtype
        self.query = build.matrix(part.heads * part.dim, q_rank)
        self.key = build.matrix(part.dim, build.hidden)
        self.norm, self.norm_bias = build.vector(part.dim), build.vector(part.dim)
        self.weigh = build.matrix(part.heads, build.hidden)
        self.keys: Rows | None = None

    def allocate(self, caching: Caching, table: Tensor | None) -> None:
        """One key per token, in the indexer's own format."""
        self.keys = Rows(
            self.ledger, batch=caching.batch, heads=1, slots=caching.tokens, dim=self.part.dim, format_=self.part.stored,
            dtype=self.dtype, layout=caching.layout, table=table,
        )  # fmt: skip

    def own(self, hidden: Tensor, compressed: Tensor, turn: Angles) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [batch, heads, dim], weights [batch, heads] and key [batch, dim] of one token."""
        query = functional.linear(compressed, self.query).unflatten(-1, (self.part.heads, self.part.dim))
        key = functional.layer_norm(functional.linear(hidden, self.key), (self.part.dim,), self.norm, self.norm_bias)
        weights = functional.linear(hidden, self.weigh) * (self.part.heads * self.part.dim) ** -0.5
        return rotate(query, turn), weights, rotate(key, turn)

    def scores(self, query: Tensor, weights: Tensor, tokens: int) -> Tensor:
        """Scores of the first `tokens` tokens, [batch, tokens]."""
        assert self.keys is not None  # noqa: S101
        found = []
        for start in range(0, tokens, _SPAN):
            key = self.keys.read(start, min(tokens, start + _SPAN)).squeeze(1)
            found.append(_score(query, weights, key))
        return torch.cat(found, -1)


def _score(query: Tensor, weights: Tensor, key: Tensor) -> Tensor:
    return (functional.relu(query @ key.transpose(-1, -2)) * weights.unsqueeze(-1)).sum(-2)


class Latent(Mixer):
    """MLA of one rank."""

    def __init__(self, part: LatentPart, build: Build) -> None:
        super().__init__(build, part.heads * part.v_dim)
        self.part = part
        width = part.heads * (part.nope_dim + part.rope_dim)
        # Compressed query, latent and rotary key come from one matrix: three products of a token in one.
        self.down = build.matrix((part.q_rank or 0) + part.rank + part.rope_dim, build.hidden)
        self.query = build.matrix(width, part.q_rank or build.hidden)
        self.q_norm = None if part.q_rank is None else build.vector(part.q_rank)
        self.norm = build.vector(part.rank)
        self.up = build.matrix(part.heads * (part.nope_dim + part.v_dim), part.rank)
        self.scale = (part.nope_dim + part.rope_dim) ** -0.5
        self.indexer = None
        if part.indexer is not None:
            self.indexer = Indexer(part.indexer, part.q_rank or build.hidden, part.rope_dim, build)
        self.keys: Rows | None = None
        self.full_chosen: Tensor | None = None

    def allocate(self, caching: Caching) -> None:
        """One row of latent and rotary key per token."""
        layout: Layout = caching.layout
        slots = self.part.slots(caching.tokens)
        table = layout.table(self.ledger, caching.batch, slots)
        self.keys = Rows(
            self.ledger, batch=caching.batch, heads=1, slots=slots, dim=self.part.rank + self.part.rope_dim,
            format_=caching.kv.k, dtype=self.dtype, layout=layout, table=table,
        )  # fmt: skip
        if self.indexer is not None:
            self.indexer.allocate(caching, table)

    def release(self) -> None:
        """Forget the cache."""
        self.keys = self.full_chosen = None
        if self.indexer is not None:
            self.indexer.keys = None

    def stored(self) -> Stored:
        """Latents, and the indexer's keys."""
        found: Stored = {} if self.keys is None else {self.part.kind: self.keys.tensors()}
        if self.indexer is not None and self.indexer.keys is not None:
            found["indexer"] = self.indexer.keys.tensors()
        return found

    def fill(self) -> None:
        """Random latents."""
        for rows in (self.keys, None if self.indexer is None else self.indexer.keys):
            if rows is not None:
                rows.fill(self.ledger)

    def step(self, hidden: Tensor, at: Step, residual: Tensor) -> Tensor:
        """Store this token's latent, choose tokens, attend in the latent space, and project out of it."""
        assert self.keys is not None  # noqa: S101
        part, inward = self.part, self._inward(hidden, at)
        slot = at.position if part.window is None else at.position % part.window
        self.keys.write(slot, inward.row.unsqueeze(1))
        if self.indexer is not None:
            at.chosen = self._choose(hidden, inward.compressed, at)
        chosen = None if part.topk is None else at.chosen
        nope, rope = inward.query.split((part.nope_dim, part.rope_dim), -1)
        into, out_of = self._absorbed()
        asked = torch.bmm(nope.transpose(0, 1), into).transpose(0, 1)
        query = Query(
            torch.cat((asked, rope), -1), self.keys, None,
            part.slots(at.position + 1) if chosen is None else chosen.shape[1],
            part.rank, self.scale, chosen=chosen,
        )  # fmt: skip
        mixed = torch.bmm(at.attend(query).transpose(0, 1), out_of.transpose(1, 2)).transpose(0, 1)
        return self.joined(mixed.flatten(1), residual)

    def full(self, hidden: Tensor) -> Tensor:
        """Latents expanded to keys and values of every head, every pair of tokens under a mask."""
        assert self.keys is not None  # noqa: S101
        part, tokens, device = self.part, hidden.shape[1], hidden.device
        steps = [Step(token, _unused, device) for token in range(tokens)]
        each = [self._inward(hidden[:, token], steps[token]) for token in range(tokens)]
        query = torch.stack([one.query for one in each], 2)
        row = self.keys.round_trip(torch.stack([one.row for one in each], 1))
        latent, rope = row.split((part.rank, part.rope_dim), -1)
        into, out_of = self._absorbed()
        key = torch.einsum("btr,hnr->bhtn", latent, into)
        key = torch.cat((key, rope.unsqueeze(1).expand(-1, part.heads, -1, -1)), -1)
        value = torch.einsum("btr,hvr->bhtv", latent, out_of)
        seen = torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()
        seen = seen if part.window is None else seen.triu(1 - part.window)
        if part.topk is not None:
            if self.indexer is not None:
                self.full_chosen = self._choose_all(hidden, torch.stack([one.compressed for one in each], 1))
            seen = seen if self.full_chosen is None else self.full_chosen.unsqueeze(1) & seen
        scores = (query @ key.transpose(-1, -2) * self.scale).masked_fill(~seen, -torch.inf)
        return self.projected_out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    def _inward(self, hidden: Tensor, at: Step) -> _Inward:
        part, turn = self.part, at.turn(self.part.rope_dim)
        down = functional.linear(hidden, self.down)
        compressed, latent, rope = down.split((part.q_rank or 0, part.rank, part.rope_dim), -1)
        compressed = hidden if self.q_norm is None else normed(compressed, self.q_norm)
        query = functional.linear(compressed, self.query).unflatten(-1, (part.heads, -1))
        nope, query_rope = query.split((part.nope_dim, part.rope_dim), -1)
        row = torch.cat((normed(latent, self.norm), rotate(rope, turn)), -1)
        return _Inward(torch.cat((nope, rotate(query_rope, turn)), -1), compressed, row)

    def _absorbed(self) -> tuple[Tensor, Tensor]:
        """[heads, nope, rank] into the latent space, [heads, v, rank] out of it."""
        up = self.up.view(self.part.heads, self.part.nope_dim + self.part.v_dim, self.part.rank)
        return up[:, : self.part.nope_dim], up[:, self.part.nope_dim :]

    def _choose(self, hidden: Tensor, compressed: Tensor, at: Step) -> Tensor | None:
        """Top k tokens [batch, k]; None while there are no more than k. They are scored all the same, as in engines."""
        assert self.indexer is not None and self.indexer.keys is not None  # noqa: S101, PT018
        query, weights, key = self.indexer.own(hidden, compressed, at.turn(self.indexer.rotary))
        self.indexer.keys.write(at.position, key.unsqueeze(1))
        at.cache_bytes += hidden.shape[0] * (at.position + 1) * self.indexer.keys.slot_bytes
        scores = self.indexer.scores(query, weights, at.position + 1)
        every = self.part.topk is None or at.position + 1 <= self.part.topk
        return None if every else scores.topk(self.part.topk or 0).indices

    def _choose_all(self, hidden: Tensor, compressed: Tensor) -> Tensor:
        """The tokens that each token reads, [batch, query, key], from all scores at once."""
        assert self.indexer is not None and self.indexer.keys is not None and self.part.topk is not None  # noqa: S101, PT018
        tokens = hidden.shape[1]
        each = [
            self.indexer.own(hidden[:, token], compressed[:, token], angles(token, self.indexer.rotary, hidden.device))
            for token in range(tokens)
        ]
        query, weights = torch.stack([one[0] for one in each], 1), torch.stack([one[1] for one in each], 1)
        key = self.indexer.keys.round_trip(torch.stack([one[2] for one in each], 1))
        scores = torch.einsum("bqhd,bkd->bqhk", query, key).relu()
        scores = (scores * weights.unsqueeze(-1)).sum(2)
        past = torch.ones(tokens, tokens, dtype=torch.bool, device=hidden.device).tril()
        best = scores.masked_fill(~past, -torch.inf).topk(min(self.part.topk, tokens), -1).indices
        return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, value=True) & past


def _unused(query: Query) -> Tensor:
    raise NotImplementedError
