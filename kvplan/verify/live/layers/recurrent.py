"""Layers with a state of constant size: gated delta net, Mamba-2, gated short convolution.

A step advances the state by one token. `full` never has a state: convolutions run over the whole sequence, Mamba-2 uses
its quadratic dual form (arXiv:2405.21060), and the delta rule solves a triangular system (arXiv:2412.06464).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvplan.verify.live.kernels.fused import EPS, advance, normed
from kvplan.verify.live.layers.mixer import Build, Caching, Mixer, Step, Stored, state
from kvplan.verify.live.ledger import Ledger, bytes_of
from kvplan.verify.live.rows import fill
from kvplan.verify.parts import ConvPart, DeltaPart, MambaPart


class Convolution(nn.Module):
    """A causal convolution, one kernel per channel. Its state is the last kernel - 1 inputs."""

    def __init__(self, channels: int, kernel: int, build: Build, *, bias: bool = False) -> None:
        super().__init__()
        self.channels, self.kernel, self.dtype = channels, kernel, build.dtype
        self.weight = build.matrix(channels, kernel)
        self.bias = build.vector(channels) if bias else None
        self.inputs: Tensor | None = None

    def allocate(self, ledger: Ledger, batch: int) -> None:
        """[batch, kernel - 1, channels]."""
        self.inputs = state(ledger, (batch, self.kernel - 1, self.channels), None, self.dtype)

    def step(self, inputs: Tensor) -> Tensor:
        """One token [batch, channels]."""
        assert self.inputs is not None  # noqa: S101
        seen = torch.cat((self.inputs, inputs.unsqueeze(1)), 1)
        self.inputs.copy_(seen[:, 1:])
        found = (seen * self.weight.t()).sum(1)
        return found if self.bias is None else found + self.bias

    def full(self, inputs: Tensor) -> Tensor:
        """All tokens [batch, tokens, channels]."""
        padded = functional.pad(inputs.transpose(1, 2), (self.kernel - 1, 0))
        return functional.conv1d(padded, self.weight.unsqueeze(1), self.bias, groups=self.channels).transpose(1, 2)


class Stateful(Mixer):
    """The common part: one convolution, and perhaps a matrix of state per head."""

    law: str
    conv: Convolution
    matrix: Tensor | None = None

    def release(self) -> None:
        """Release the state."""
        self.conv.inputs = self.matrix = None

    @property
    def kept(self) -> tuple[Tensor, ...]:
        """The convolution's inputs and the state. A step reads all of it."""
        return tuple(tensor for tensor in (self.conv.inputs, self.matrix) if tensor is not None)

    def stored(self) -> Stored:
        """The same by growth law."""
        return {self.law: self.kept} if self.kept else {}

    def fill(self) -> None:
        """Random state."""
        for tensor in self.kept:
            fill(tensor, self.ledger.random)


class DeltaNet(Stateful):
    """Gated delta net: S = a S + b k (v - (a S)' k)'."""

    law = DeltaPart.kind

    def __init__(self, part: DeltaPart, build: Build) -> None:
        super().__init__(build, part.v_heads * part.v_dim)
        self.part = part
        self.sizes = (part.channels, part.v_heads * part.v_dim, part.v_heads, part.v_heads)
        self.inward = build.matrix(sum(self.sizes), build.hidden)
        self.conv = Convolution(part.channels, part.kernel, build)
        self.rate, self.shift = build.vector(part.v_heads), build.vector(part.v_heads)
        self.norm = build.vector(part.v_dim)

    def allocate(self, caching: Caching) -> None:
        """[batch, value heads, key size, value size]."""
        part = self.part
        self.conv.allocate(self.ledger, caching.batch)
        self.matrix = state(
            self.ledger, (caching.batch, part.v_heads, part.k_dim, part.v_dim), part.kept.format, self.dtype
        )

    def _split(self, mixed: Tensor, write: Tensor, decay: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Query, key, value [..., heads, dim], decay and write strength [..., heads], from the convolution's output."""
        part = self.part
        keys = part.k_heads * part.k_dim
        query, key, value = functional.silu(mixed).split((keys, keys, part.v_heads * part.v_dim), -1)
        repeat = part.v_heads // part.k_heads
        query, key = (
            functional.normalize(one.unflatten(-1, (part.k_heads, part.k_dim)).float(), dim=-1, eps=EPS)
            .to(one.dtype)
            .repeat_interleave(repeat, -2)
            for one in (query, key)
        )
        fading = torch.exp(-torch.exp(self.rate) * functional.softplus(decay + self.shift))
        value = value.unflatten(-1, (part.v_heads, part.v_dim))
        return query * part.k_dim**-0.5, key, value, fading, write.sigmoid()

    def step(self, hidden: Tensor, at: Step, residual: Tensor) -> Tensor:
        """Advance the state by one token and read it."""
        assert self.matrix is not None  # noqa: S101
        at.cache_bytes += bytes_of(self.kept)
        mixed, gate, write, decay = functional.linear(hidden, self.inward).split(self.sizes, -1)
        query, key, value, fading, strength = self._split(self.conv.step(mixed), write, decay)
        found = advance(self.matrix, key, value, query, fading, strength, erase=True)
        return self.joined(self._gated(found, gate), residual)

    def full(self, hidden: Tensor) -> Tensor:
        """With u = (I + tril(b (K K') * G))^-1 b V; o = tril((Q K') * G) u, G the decay between two tokens."""
        mixed, gate, write, decay = functional.linear(hidden, self.inward).split(self.sizes, -1)
        query, key, value, fading, strength = (
            one.transpose(1, 2).double() for one in self._split(self.conv.full(mixed), write, decay)
        )
        between = _decay_between(fading)
        scores = strength.unsqueeze(-1) * (key @ key.transpose(-1, -2)) * between
        system = torch.eye(scores.shape[-1], dtype=scores.dtype, device=scores.device) + scores.tril(-1)
        written = torch.linalg.solve_triangular(system, strength.unsqueeze(-1) * value, upper=False)
        found = ((query @ key.transpose(-1, -2)) * between).tril() @ written
        return self.projected_out(self._gated(found.transpose(1, 2), gate))

    def _gated(self, found: Tensor, gate: Tensor) -> Tensor:
        scaled = normed(found.to(self.dtype), self.norm).flatten(-2)
        return scaled * functional.silu(gate)


class Mamba2(Stateful):
    """Mamba-2: S = a S + dt B x', y = S' C + D x."""

    law = MambaPart.kind

    def __init__(self, part: MambaPart, build: Build) -> None:
        super().__init__(build, part.inner)
        self.part = part
        self.sizes = (part.inner, part.channels, part.heads)
        self.inward = build.matrix(sum(self.sizes), build.hidden)
        self.conv = Convolution(part.channels, part.kernel, build, bias=part.conv_bias)
        self.rate, self.skip, self.shift = (build.vector(part.heads) for _ in range(3))
        self.norm = build.vector(part.inner) if part.norm else None

    def allocate(self, caching: Caching) -> None:
        """[batch, heads, state, head]."""
        part = self.part
        self.conv.allocate(self.ledger, caching.batch)
        self.matrix = state(
            self.ledger, (caching.batch, part.heads, part.state, part.head_dim), part.kept.format, self.dtype
        )

    def _split(self, mixed: Tensor, decay: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """B, C [..., heads, state], x [..., heads, head], decay and dt [..., heads]."""
        part = self.part
        shared = part.groups * part.state
        x, b, c = functional.silu(mixed).split((part.inner, shared, shared), -1)
        b, c = (
            one.unflatten(-1, (part.groups, part.state)).repeat_interleave(part.heads // part.groups, -2)
            for one in (b, c)
        )
        dt = functional.softplus(decay + self.shift)
        return b, c, x.unflatten(-1, (part.heads, part.head_dim)), torch.exp(-torch.exp(self.rate) * dt), dt

    def step(self, hidden: Tensor, at: Step, residual: Tensor) -> Tensor:
        """Advance the state by one token and read it."""
        assert self.matrix is not None  # noqa: S101
        at.cache_bytes += bytes_of(self.kept)
        gate, mixed, decay = functional.linear(hidden, self.inward).split(self.sizes, -1)
        b, c, x, fading, dt = self._split(self.conv.step(mixed), decay)
        found = advance(self.matrix, b, x, c, fading, dt, erase=False)
        return self.joined(self._gated(found.to(self.dtype) + x * self.skip.unsqueeze(-1), gate), residual)

    def full(self, hidden: Tensor) -> Tensor:
        """As attention without a softmax: y = tril((C B') * G) (dt x)."""
        gate, mixed, decay = functional.linear(hidden, self.inward).split(self.sizes, -1)
        b, c, x, fading, dt = (one.transpose(1, 2).double() for one in self._split(self.conv.full(mixed), decay))
        scores = ((c @ b.transpose(-1, -2)) * _decay_between(fading)).tril()
        found = scores @ (dt.unsqueeze(-1) * x) + x * self.skip.view(1, -1, 1, 1)
        return self.projected_out(self._gated(found.transpose(1, 2).to(self.dtype), gate))

    def _gated(self, found: Tensor, gate: Tensor) -> Tensor:
        scaled = found.flatten(-2) * functional.silu(gate)
        return scaled if self.norm is None else normed(scaled, self.norm)


def _decay_between(fading: Tensor) -> Tensor:
    """[..., query, key]: product of the decays after the key's token, up to the query's."""
    logs = fading.log().cumsum(-1)
    return (logs.unsqueeze(-1) - logs.unsqueeze(-2)).tril().exp()


class ShortConvolution(Stateful):
    """y = C * conv(B * x), all three projected from the token."""

    law = ConvPart.kind

    def __init__(self, part: ConvPart, build: Build) -> None:
        super().__init__(build, part.channels)
        self.part = part
        self.inward = build.matrix(3 * part.channels, build.hidden)
        self.conv = Convolution(part.channels, part.kernel, build)

    def allocate(self, caching: Caching) -> None:
        """Only the convolution's inputs."""
        self.conv.allocate(self.ledger, caching.batch)

    def step(self, hidden: Tensor, at: Step, residual: Tensor) -> Tensor:
        """One token through the convolution."""
        at.cache_bytes += bytes_of(self.kept)
        before, after, inputs = functional.linear(hidden, self.inward).chunk(3, -1)
        return self.joined(after * self.conv.step(before * inputs), residual)

    def full(self, hidden: Tensor) -> Tensor:
        """The convolution over the whole sequence."""
        before, after, inputs = functional.linear(hidden, self.inward).chunk(3, -1)
        return self.projected_out(after * self.conv.full(before * inputs))
