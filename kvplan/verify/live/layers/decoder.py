"""The stack: embedding, layers, head. One step of all sequences, or all tokens at once without a cache."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvplan.verify.live.kernels.attend import Reader
from kvplan.verify.live.kernels.fused import normed
from kvplan.verify.live.layers.attention import Attention
from kvplan.verify.live.layers.feed_forward import Experts, feed_forward
from kvplan.verify.live.layers.latent import Latent
from kvplan.verify.live.layers.mixer import Build, Caching, Mixer, Step, Stored
from kvplan.verify.live.layers.recurrent import DeltaNet, Mamba2, ShortConvolution
from kvplan.verify.parts import (
    AttentionPart,
    Blueprint,
    ConvPart,
    DeltaPart,
    Held,
    LatentPart,
    LayerPlan,
    MambaPart,
)
from kvplan.verify.parts import (
    Mixer as MixerPart,
)


def mixer(part: MixerPart, build: Build, source: Attention | None = None) -> Mixer:
    """The module of a part. source: the layer whose cache a sharing layer reads."""
    match part:
        case AttentionPart():
            return Attention(part, build, source if part.shares is not None else None)
        case LatentPart():
            return Latent(part, build)
        case DeltaPart():
            return DeltaNet(part, build)
        case MambaPart():
            return Mamba2(part, build)
        case ConvPart():
            return ShortConvolution(part, build)


class Layer(nn.Module):
    """Norm, mixers in parallel, norm, feed-forwards in parallel."""

    def __init__(self, plan: LayerPlan, build: Build, source: Attention | None) -> None:
        super().__init__()
        self.mixers = nn.ModuleList(mixer(part, build, source) for part in plan.mixers)
        self.feed_forwards = nn.ModuleList(feed_forward(part, build) for part in plan.feed_forwards)
        self.norms = nn.ParameterList(build.vector(build.hidden) for _ in range(plan.norms))
        self.idle = nn.ParameterList(build.vector(build.hidden) for _ in plan.idle)
        self.held = nn.ParameterList(_held(plan.held, build))

    def _normed(self, hidden: Tensor, place: int) -> Tensor:
        return normed(hidden, self.norms[place]) if place < len(self.norms) else hidden

    def step(self, hidden: Tensor, at: Step) -> Tensor:
        """[batch, hidden] in and out."""
        inward = self._normed(hidden, 0)
        for one in self.mixers:
            hidden = one.step(inward, at, hidden)
        if self.feed_forwards:
            inward = self._normed(hidden, 1 if self.mixers else 0)
        for forward in self.feed_forwards:
            hidden = forward(inward, hidden)
        return hidden

    def full(self, hidden: Tensor) -> Tensor:
        """[batch, tokens, hidden] in and out."""
        inward = self._normed(hidden, 0)
        for one in self.mixers:
            hidden = hidden + one.full(inward)
        flat = self._normed(hidden, 1 if self.mixers else 0).flatten(0, 1)
        for forward in self.feed_forwards:
            hidden = forward(flat, hidden.flatten(0, 1)).view_as(hidden)
        return hidden


class Decoder(nn.Module):
    """One rank's share of a model, with random weights."""

    def __init__(self, plan: Blueprint, build: Build) -> None:
        super().__init__()
        self.plan, self.build = plan, build
        self.embedding = build.matrix(plan.vocab, plan.hidden) if plan.vocab else None
        self.layers = nn.ModuleList()
        self.idle = nn.ParameterList(build.vector(build.hidden) for _ in plan.idle)
        self.held = nn.ParameterList(_held(plan.held, build))
        for layer in plan.layers:
            self.layers.append(Layer(layer, build, self._source(layer)))
        self.norm = build.vector(plan.hidden) if plan.final_norm else None
        self.head = self.embedding if plan.tied else build.matrix(plan.head, plan.hidden) if plan.head else None

    def _source(self, plan: LayerPlan) -> Attention | None:
        places = [part.shares for part in plan.mixers if isinstance(part, AttentionPart) and part.shares is not None]
        if not places:
            return None
        return next(one for one in self.layers[places[0]].mixers if isinstance(one, Attention))

    @property
    def mixers(self) -> Iterable[Mixer]:
        """Mixers of all layers, in order."""
        return (one for layer in self.layers for one in layer.mixers)

    @property
    def experts(self) -> tuple[Experts, ...]:
        """Experts of all layers that have some."""
        return tuple(one for layer in self.layers for one in layer.feed_forwards if isinstance(one, Experts))

    @property
    def can_be_captured(self) -> bool:
        """Whether a CUDA graph can hold all of a step: no launch depends on another one's result."""
        return all(one.in_one_launch for one in self.experts)

    def allocate(self, caching: Caching) -> None:
        """Allocate the cache of every layer; all or nothing. Raises: NoRoom, Unsupported."""
        try:
            for one in self.mixers:
                one.allocate(caching)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the cache."""
        for one in self.mixers:
            one.release()
        for account in ("cache", "tables"):
            self.build.ledger.release(account)

    def fill(self) -> None:
        """Random contents in every cache."""
        for one in self.mixers:
            one.fill()

    def stored(self) -> Stored:
        """Live cache tensors of all layers, by growth law."""
        found: dict[str, tuple[Tensor, ...]] = {}
        for one in self.mixers:
            for kind, tensors in one.stored().items():
                found[kind] = (*found.get(kind, ()), *tensors)
        return found

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors of tokens. Without an embedding, the ids are vectors already."""
        if self.embedding is None:
            return ids
        ranks = self.build.ranks
        if ranks.size == 1:
            return functional.embedding(ids, self.embedding)
        local = ids - ranks.rank * self.plan.vocab
        own = (local >= 0) & (local < self.plan.vocab)
        return ranks.add_up(
            functional.embedding(local.clamp(0, self.plan.vocab - 1), self.embedding) * own.unsqueeze(-1)
        )

    def _out(self, hidden: Tensor) -> Tensor:
        hidden = hidden if self.norm is None else normed(hidden, self.norm)
        return hidden if self.head is None else functional.linear(hidden, self.head)

    @torch.no_grad()
    def step(self, ids: Tensor, at: Step) -> Tensor:
        """Logits [batch, vocab of this rank] of the next token of every sequence."""
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = layer.step(hidden, at)
        return self._out(hidden)

    @torch.no_grad()
    def full(self, ids: Tensor) -> Tensor:
        """Logits of every token of every sequence, recomputed without a cache."""
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = layer.full(hidden)
        return self._out(hidden)

    def at(self, position: int, reader: Reader) -> Step:
        """The step at that position."""
        return Step(position, reader, self.build.ledger.device)


def _held(held: Iterable[Held], build: Build) -> list[nn.Parameter]:
    return [build.ledger.weight((one.copies, *one.shape), build.dtype, one.shape[-1], "held") for one in held]
