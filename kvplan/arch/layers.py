"""Kinds of layer, by what they cache for a sequence: a closed set of growth laws, not of model names.

    Cache = Attention | Latent | Compressed | Recurrent | CrossAttention

Each kind answers two questions for one rank: `parts` (what is stored) and `reads` (what one decode step reads). A layer
without a cache, or one that reads an earlier layer's, has no entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kvplan.arch.curve import StateGroup
from kvplan.arch.formats import FORMATS, Format, KvFormat
from kvplan.arch.parallel import Shard

MOST_LAYERS = 4096
"""More layers than this are a mistake: no published model has a tenth of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """One growth law of a layer, with its formula and the formula's source."""

    kind: str
    group: StateGroup
    formula: str
    source: str


_ATTENTION = "K and V of every KV head: GQA, arXiv:2305.13245"
_MLA = "latent and rotary key, shared by all heads: DeepSeek-V2, arXiv:2405.04434 section 2.1"
_INDEXER = "lightning indexer keys: DeepSeek-V3.2 reference inference code (fp8 key, one fp32 scale per 128 elements)"
_POOLED = "pooled indexer keys: vLLM 0.33 models/glm5next/common/attention.py and qwen4_exp/common/qsa_cache.py, a ring of one pool"
_COMPRESSED = "compressed sparse attention: DeepSeek-V4 reference inference code; compressor state in fp32"


@dataclass(frozen=True, slots=True)
class Indexer:
    """Keys that choose which tokens sparse attention reads: one per token or compressed entry, not split by TP.

    dim: elements of a key. stored: format of the keys, independent of the cache format. pool: tokens whose keys are
    pooled into one; the unfinished pool keeps its raw 16-bit keys, and gates beside them where it is gated.
    """

    dim: int
    stored: Format
    pool: int = 1
    gated: bool = True

    def parts(self, stride: int, shard: Shard) -> tuple[Part, ...]:
        """Growth of the keys, one per `stride` x `pool` tokens, and of the unfinished pool."""
        size = self.stored.row_bytes(self.dim)
        formula = f"{self.dim} in {self.stored.name} = {size} B"
        keys = Part("indexer", StateGroup(size, stride * self.pool, spread=shard.dcp), formula, _INDEXER)
        if self.pool == 1:
            return (keys,)
        kept = 2 if self.gated else 1
        tail = self.pool * kept * self.dim * 2
        return keys, Part(
            "indexer tail", StateGroup(fixed=tail), f"{self.pool} x {kept} x {self.dim} x 2 B = {tail} B", _POOLED
        )


FP8_INDEX = Format("fp8 with scale", 8, block=128, scale_bits=32, source=_INDEXER)


@dataclass(frozen=True, slots=True)
class Attention:
    """Keys and values of every token, of the last `window` tokens, or of the current `chunk`.

    heads: query heads, None where a config states only key and value heads. kv_heads: key and value heads. k_dim,
    v_dim: elements of one head's key and value. window: tokens that a query sees, itself included. chunk: tokens of a
    chunk; the cache is emptied at its end. sinks: first tokens kept beside the window (StreamingLLM, arXiv:2309.17453).
    indexer: of block-sparse attention. topk: tokens that sparse attention reads.
    """

    heads: int | None
    kv_heads: int
    k_dim: int
    v_dim: int
    window: int | None = None
    chunk: int | None = None
    sinks: int = 0
    indexer: Indexer | None = None
    topk: int | None = None

    @property
    def cap(self) -> int | None:
        """Tokens after which nothing more is kept; None if it always grows."""
        if self.window is not None:
            return self.window + self.sinks
        return self.chunk

    @property
    def kind(self) -> str:
        """Name of the growth law."""
        if self.chunk is not None:
            return "chunked"
        return "full" if self.window is None else "sliding"

    def parts(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[Part, ...]:
        """Stored by one rank: kv_heads x (K row + V row) for each token kept."""
        heads = shard.units(self.kv_heads, "KV heads")
        kv = kv.of_heads()
        row = kv.k.row_bytes(self.k_dim) + kv.v.row_bytes(self.v_dim)
        formula = f"{heads} KV heads x ({self.k_dim} in {kv.k.name} + {self.v_dim} in {kv.v.name}) = {heads * row} B"
        spread = shard.dcp if self.cap is None else 1
        own = Part(self.kind, StateGroup(heads * row, cap=self.cap, spread=spread), formula, _ATTENTION)
        return (own,) if self.indexer is None else (own, *self.indexer.parts(1, shard))

    def reads(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[StateGroup, ...]:
        """Read by one decode step of one rank."""
        stored = tuple(part.group for part in self.parts(shard, kv, dtype))
        return stored if self.topk is None else (replace(stored[0], cap=self.topk), *stored[1:])


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: one compressed vector and one rotary key per token, whole on every tensor rank.

    rank: kv_lora_rank. rope_dim: qk_rope_head_dim. nope_dim, v_dim: of the heads that a latent expands to, which aren't
    cached. heads, nope_dim and v_dim are None where a config states only the latent. topk: tokens that sparse attention
    reads. window: tokens that a query sees, itself included.
    """

    heads: int | None
    rank: int
    rope_dim: int
    nope_dim: int | None = None
    v_dim: int | None = None
    indexer: Indexer | None = None
    topk: int | None = None
    window: int | None = None

    @property
    def kind(self) -> str:
        """Name of the growth law."""
        return "latent" if self.window is None else "sliding latent"

    def parts(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[Part, ...]:
        """Stored by one rank: rank + rope_dim elements per token, once for keys, values and all heads."""
        row = kv.k.row_bytes(self.rank + self.rope_dim)
        formula = f"(latent {self.rank} + rotary key {self.rope_dim}) in {kv.k.name} = {row} B"
        spread = shard.dcp if self.window is None else 1
        own = Part(self.kind, StateGroup(row, cap=self.window, spread=spread), formula, _MLA)
        return (own,) if self.indexer is None else (own, *self.indexer.parts(1, shard))

    def reads(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[StateGroup, ...]:
        """Read by one decode step: the latent of every token, or of the indexer's top k, and all indexer keys."""
        stored = tuple(part.group for part in self.parts(shard, kv, dtype))
        return stored if self.topk is None else (replace(stored[0], cap=self.topk), *stored[1:])


@dataclass(frozen=True, slots=True)
class Compressed:
    """A window of raw latents, one compressed latent per `ratio` tokens, and the compressor's running state.

    heads: query heads. dim: elements of a latent, which is key and value at once. ratio: None for the window alone.
    indexer: over compressed entries. topk: compressed entries that it picks. state_elements: fp32 elements of the
    compressors' buffers.
    """

    heads: int
    dim: int
    window: int
    ratio: int | None = None
    indexer: Indexer | None = None
    topk: int | None = None
    state_elements: int = 0

    @property
    def kind(self) -> str:
        """Name of the growth law."""
        return "compressed" if self.ratio else "sliding"

    def parts(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[Part, ...]:
        """Stored by one rank. There are no heads to split."""
        row = kv.k.row_bytes(self.dim)
        per_entry = f"latent {self.dim} in {kv.k.name} = {row} B"
        parts = [Part("sliding", StateGroup(row, cap=self.window), per_entry, _COMPRESSED)]
        if self.ratio is not None:
            grown = StateGroup(row, self.ratio, spread=shard.dcp)
            parts.append(Part("compressed", grown, f"{per_entry} per {self.ratio} tokens", _COMPRESSED))
            if self.indexer is not None:
                parts.extend(self.indexer.parts(self.ratio, shard))
        if self.state_elements:
            size = self.state_elements * 4
            parts.append(
                Part("compressor state", StateGroup(fixed=size), f"{self.state_elements} x 4 B = {size} B", _COMPRESSED)
            )
        return tuple(parts)

    def reads(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[StateGroup, ...]:
        """Read by one decode step: the window, the compressed entries chosen, and the indexer's keys."""
        groups = []
        for part in self.parts(shard, kv, dtype):
            group = part.group
            if part.kind == "compressed" and self.topk is not None:
                group = replace(group, cap=self.topk * group.stride)
            groups.append(group)
        return tuple(groups)


@dataclass(frozen=True, slots=True)
class StateTensor:
    """One tensor of a recurrent layer's state.

    role: its purpose, by which engines lay it out. rows: of each part (a convolution's kernel - 1). widths: (units,
    elements of one unit); tensor parallelism deals out units. stored: the format that the config states. usual: the
    reference implementation's format if the config states none; None for the model's own.
    """

    role: Literal["conv", "recurrent", "shift"]
    rows: int
    widths: tuple[tuple[int, int], ...]
    stored: Format | None = None
    usual: Format | None = None

    def format(self, dtype: Format) -> Format:
        """Format of the tensor in a model that runs in `dtype`."""
        return self.stored or self.usual or dtype

    def elements(self, shard: Shard) -> int:
        """Elements on one rank."""
        return self.rows * sum(shard.units(units, "state heads") * width for units, width in self.widths)

    def bytes(self, shard: Shard, dtype: Format) -> int:
        """Bytes on one rank, in its own format or the model's."""
        return self.format(dtype).row_bytes(self.elements(shard))


@dataclass(frozen=True, slots=True)
class Recurrent:
    """State of constant size: Mamba, gated delta net, linear attention, RWKV, short convolution.

    law: name of the recurrence. tensors: what it keeps. source: where their shapes come from.
    """

    law: str
    tensors: tuple[StateTensor, ...]
    source: str

    @property
    def kind(self) -> str:
        """Name of the growth law."""
        return "recurrent"

    def parts(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[Part, ...]:
        """Stored by one rank at any length. The cache format doesn't change it."""
        size = sum(tensor.bytes(shard, dtype) for tensor in self.tensors)
        formula = " + ".join(
            f"{tensor.role} {tensor.elements(shard)} in {tensor.format(dtype).name}" for tensor in self.tensors
        )
        return (Part(self.law, StateGroup(fixed=size), f"{formula} = {size} B", self.source),)

    def reads(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[StateGroup, ...]:
        """Read (and written back) by one decode step."""
        return tuple(part.group for part in self.parts(shard, kv, dtype))


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """Keys and values of an encoder's output, computed once per request.

    tokens: length of the longest encoder output; a shorter one keeps less.
    """

    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int
    tokens: int

    @property
    def kind(self) -> str:
        """Name of the growth law."""
        return "cross"

    def parts(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[Part, ...]:
        """Stored by one rank for one request with the longest encoder input."""
        heads = shard.units(self.kv_heads, "KV heads")
        kv = kv.of_heads()
        row = kv.k.row_bytes(self.k_dim) + kv.v.row_bytes(self.v_dim)
        formula = f"{self.tokens} encoder tokens x {heads} KV heads x ({self.k_dim} + {self.v_dim}) in {kv.k.name}"
        return (Part("cross", StateGroup(fixed=self.tokens * heads * row), formula, _ATTENTION),)

    def reads(self, shard: Shard, kv: KvFormat, dtype: Format) -> tuple[StateGroup, ...]:
        """Read by one decode step."""
        return tuple(part.group for part in self.parts(shard, kv, dtype))


Cache = Attention | Latent | Compressed | Recurrent | CrossAttention

FP32, BF16 = FORMATS["fp32"], FORMATS["bf16"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the stack: the caches that it keeps, or the earlier layer whose cache it reads.

    caches: empty for a layer without a cache (a plain MLP) and for one that reads another's. shares_with: index of that
    earlier layer.
    """

    caches: tuple[Cache, ...] = ()
    shares_with: int | None = None
