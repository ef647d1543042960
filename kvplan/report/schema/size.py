"""`kvplan size`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.report.schema.common import EngineInfo, Explained, KvDtype, Layout, ModelInfo, WeightReads


@dataclass
class Group:
    """Layers with the same growth law; the law is of one layer, for the whole model and one copy.

        bytes(n) = layers * (fixed_bytes + bytes_per_entry * (min(n, cap_tokens) // stride))

    bytes_per_token: bytes_per_entry / stride, rounded to the nearest byte.
    """

    kind: str
    layers: int
    bytes_per_token: int
    cap_tokens: int | None
    stride: int
    fixed_bytes: int
    bytes_per_entry: int
    formula: str
    source: str


@dataclass
class CacheInfo:
    """The whole model, one copy, by the formula.

    bytes_per_token: what token 1 adds. bytes_per_token_full: what one more token adds once every window is full.
    full_after: tokens after which every window is. fixed_bytes_per_sequence: kept before the first token.
    """

    attention: str
    bytes_per_token: int
    bytes_per_token_full: int
    full_after: int
    fixed_bytes_per_sequence: int
    groups: tuple[Group, ...]


@dataclass
class Sequence:
    """One sequence of `tokens`. bytes: whole model, one copy. bytes_per_gpu: on the fullest GPU.

    engine_bytes, engine_bytes_per_gpu: what the engine takes for it, on all GPUs of one replica (copies of heads and
    latents included) and on the fullest. slope_bytes: what one more token adds at this length.
    """

    tokens: int
    bytes: int
    bytes_per_gpu: int
    engine_bytes: int
    engine_bytes_per_gpu: int
    slope_bytes: int


@dataclass
class Rung:
    """Bytes of one sequence at one length: whole model, one copy."""

    tokens: int
    bytes: int


@dataclass
class SameShape:
    """The same layers and heads under another attention. ratio: its bytes at the longest length over the model's own."""

    attention: str
    bytes_per_token: int
    bytes: int
    ratio: float


@dataclass
class Work:
    """Token passes to generate `output` tokens after `prompt`, without a cache and with one."""

    prompt: int
    output: int
    token_passes_without_cache: int
    token_passes_with_cache: int
    ratio: float
    per_new_token_without_cache: float


@dataclass
class SizeReport:
    """`kvplan size`. verified: whether the rules are those of the engine's version asked for.

    weight_reads: of one copy of the model; null where its weights aren't known. rule_of_thumb: null for a model that it
    isn't about. assumed: what nobody gave.
    """

    schema: str
    model: ModelInfo
    kv_dtype: KvDtype
    parallel: Layout
    engine: EngineInfo
    cache: CacheInfo
    sequences: tuple[Sequence, ...]
    ladder: tuple[Rung, ...]
    same_shape: tuple[SameShape, ...]
    work: Work
    rule_of_thumb: str | None
    weight_reads: WeightReads | None
    explain: Explained
    verified: bool
    assumed: Mapping[str, str]
