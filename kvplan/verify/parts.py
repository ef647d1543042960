"""The parts of a decoder for one tensor rank, as data: kinds of mixers and feed-forwards. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.arch.formats import Format
from kvplan.arch.weights import Weight


@dataclass(frozen=True, slots=True)
class AttentionPart:
    """Softmax attention of one rank; kvplan.arch.layers.Attention explains the other fields.

    norms: of each head's query and key. gate: of the output, by a sigmoid. sink_logits: one per head in the softmax.
    v_from_k: whether values are the keys before norm and rotation. shares: index of the layer whose cache it reads.
    """

    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int
    window: int | None = None
    chunk: int | None = None
    sinks: int = 0
    norms: bool = False
    bias: bool = False
    out_bias: bool = False
    gate: bool = False
    sink_logits: bool = False
    v_from_k: bool = False
    shares: int | None = None

    @property
    def kind(self) -> str:
        """Its growth law in kvplan.arch."""
        return "chunked" if self.chunk is not None else "full" if self.window is None else "sliding"

    @property
    def name(self) -> str:
        """Its name in reports."""
        grouping = "MHA" if self.heads == self.kv_heads else "MQA" if self.kv_heads == 1 else "GQA"
        extra = f" + {self.sinks} sinks" if self.sinks else ""
        return f"{grouping}, {self.kind}{extra}{'' if self.shares is None else ', shared cache'}"

    def slots(self, tokens: int) -> int:
        """How many of `tokens` are kept."""
        if self.chunk is not None:
            return min(tokens, self.chunk)
        return tokens if self.window is None else min(tokens, self.window + self.sinks)


@dataclass(frozen=True, slots=True)
class Kept:
    """The format of a recurrent state or an index key: its name, None for the model's own, and whose choice it is.

    checked: whether it is known independently of the prediction; False if both read it from the config.
    """

    format: str | None
    whose: str
    checked: bool = True


OWN = Kept(None, "the state in the model's format")
INDEX_KEYS = Kept("fp8 with scale", "index keys in fp8 with a scale for 128 elements, as vLLM keeps them")
"""Source: vLLM 0.33 model_executor/layers/sparse_attn_indexer.py."""


@dataclass(frozen=True, slots=True)
class IndexerPart:
    """The keys and queries that choose which tokens sparse attention reads; the same on every rank."""

    heads: int
    dim: int
    stored: Format
    kept: Kept = INDEX_KEYS


@dataclass(frozen=True, slots=True)
class LatentPart:
    """Latent attention of one rank with absorbed projections. q_rank: None if queries aren't compressed.

    topk: tokens that sparse attention reads, chosen by `indexer` or, without one, by an earlier layer's. window: tokens
    that a query sees, itself included.
    """

    heads: int
    rank: int
    rope_dim: int
    nope_dim: int
    v_dim: int
    q_rank: int | None = None
    bias: bool = False
    indexer: IndexerPart | None = None
    topk: int | None = None
    window: int | None = None

    @property
    def kind(self) -> str:
        """Its growth law in kvplan.arch."""
        return "latent" if self.window is None else "sliding latent"

    def slots(self, tokens: int) -> int:
        """How many of `tokens` are kept."""
        return tokens if self.window is None else min(tokens, self.window)

    @property
    def name(self) -> str:
        """Its name in reports."""
        if self.window is not None:
            return "MLA, sliding"
        return "MLA" if self.topk is None else "sparse MLA" + ("" if self.indexer else ", shared selection")


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """Gated delta net of one rank."""

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    kernel: int
    kept: Kept = OWN

    kind = name = "gated delta net"

    @property
    def channels(self) -> int:
        """Channels of the convolution over queries, keys and values."""
        return 2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim


@dataclass(frozen=True, slots=True)
class MambaPart:
    """Mamba-2 of one rank. norm: over the inner width before the output projection."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    norm: bool = False
    conv_bias: bool = False
    kept: Kept = OWN

    kind = name = "mamba2"

    @property
    def inner(self) -> int:
        """Width of the recurrence."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolution over inputs, B and C."""
        return self.inner + 2 * self.groups * self.state


@dataclass(frozen=True, slots=True)
class ConvPart:
    """Gated short convolution of one rank."""

    channels: int
    kernel: int

    kind = name = "short convolution"


@dataclass(frozen=True, slots=True)
class DensePart:
    """Feed-forward of one rank, gated or with a plain activation."""

    width: int
    gated: bool = True
    bias: bool = False
    out_bias: bool = False


@dataclass(frozen=True, slots=True)
class ExpertsPart:
    """Experts of one rank, each cut to `width`. A token uses `picked` of them.

    shared: width of the experts that all tokens use. latent: width of the vectors that experts work on, between two
    projections that every rank has; None if they work on the hidden vectors themselves.
    """

    experts: int
    picked: int
    width: int
    gated: bool = True
    shared: int = 0
    shared_gate: bool = False
    latent: int | None = None


Mixer = AttentionPart | LatentPart | DeltaPart | MambaPart | ConvPart
FeedForward = DensePart | ExpertsPart


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor that takes memory and that no module reads: its shape and copies on one rank."""

    weight: Weight
    shape: tuple[int, ...]
    copies: int = 1

    @property
    def name(self) -> str:
        """Name of the tensor."""
        return self.weight.name


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """One layer: its mixers, its feed-forwards, the number of norms that a step applies, and what is only held.

    idle: norms as wide as the hidden vector that are built but not applied.
    """

    mixers: tuple[Mixer, ...]
    feed_forwards: tuple[FeedForward, ...] = ()
    norms: int = 0
    held: tuple[Held, ...] = ()
    idle: tuple[Weight, ...] = ()


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A decoder for one rank. vocab, head: its rows of embedding and head, 0 without. idle: as in a layer."""

    hidden: int
    vocab: int
    tied: bool
    dtype: Format
    layers: tuple[LayerPlan, ...]
    head: int = 0
    final_norm: bool = True
    held: tuple[Held, ...] = ()
    idle: tuple[Weight, ...] = ()

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the tensors that no step reads, each once."""
        groups: tuple[LayerPlan | Blueprint, ...] = (*self.layers, self)
        weights = (weight for group in groups for weight in (*group.idle, *(one.weight for one in group.held)))
        return tuple(dict.fromkeys(weight.name for weight in weights))

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """Distinct mixers in order of first appearance, wherever they are in the stack."""
        bare = (
            replace(mixer, shares=0) if isinstance(mixer, AttentionPart) and mixer.shares is not None else mixer
            for layer in self.layers
            for mixer in layer.mixers
        )
        return tuple(dict.fromkeys(bare))

    @property
    def feed_forwards(self) -> tuple[FeedForward, ...]:
        """Distinct feed-forwards."""
        return tuple(dict.fromkeys(part for layer in self.layers for part in layer.feed_forwards))
