"""The document of `kvplan size`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.report.schema.common import EngineInfo, Explained, KvDtype, Layout, ModelInfo, Setting, WeightReads


@dataclass
class Group:
    """Layers with the same growth law, which is stated for the whole model and one copy.

    bytes(n) = layers * (fixed_bytes + bytes_per_entry * (min(n, cap_tokens) // stride))
    """

    kind: str
    """Name of the growth law."""
    layers: int
    """Number of layers that follow it."""
    bytes_per_token: int
    """bytes_per_entry / stride, rounded to the nearest byte."""
    cap_tokens: int | None
    """Tokens after which it stops growing; null where it never does."""
    stride: int
    """Tokens that share one entry."""
    fixed_bytes: int
    """Bytes kept before the first token."""
    bytes_per_entry: int
    """Bytes of one entry."""
    formula: str
    """The law with the model's dimensions filled in."""
    source: str
    """Where the law comes from."""


@dataclass
class CacheInfo:
    """The cache by the formula: whole model, one copy."""

    attention: str
    """The usual name of the kind of attention."""
    bytes_per_token: int
    """Bytes that the first token adds."""
    bytes_per_token_full: int
    """Bytes that one more token adds once every window is full."""
    full_after: int
    """Tokens after which every window is full."""
    fixed_bytes_per_sequence: int
    """Bytes that a sequence keeps before its first token."""
    caching_layers: int
    """Layers that cache anything, each counted once."""
    groups: tuple[Group, ...]
    """Layers, by growth law; a layer that keeps several things is in several."""


@dataclass
class Sequence:
    """One sequence."""

    tokens: int
    """Tokens of the sequence."""
    bytes: int
    """Bytes by the formula: whole model, one copy."""
    bytes_per_gpu: int
    """Bytes by the formula on the fullest GPU."""
    engine_bytes: int
    """Bytes that the engine takes on all GPUs of one replica, with copies of heads and latents."""
    engine_bytes_per_gpu: int
    """Bytes that the engine takes on the fullest GPU."""
    slope_bytes: int
    """Bytes by the formula that one more token adds at this length."""


@dataclass
class Rung:
    """One sequence of a round length by the formula: whole model, one copy."""

    tokens: int
    """Tokens of the sequence."""
    bytes: int
    """Bytes of its cache."""


@dataclass
class SameShape:
    """The same layers and heads under another kind of attention."""

    attention: str
    """The kind of attention."""
    bytes_per_token: int
    """Bytes that the first token adds."""
    bytes: int
    """Bytes of one sequence of the longest length asked for."""
    ratio: float
    """`bytes` divided by the model's own."""


@dataclass
class Work:
    """Token passes through the model to generate text, without and with a cache."""

    prompt: int
    """Tokens of the prompt."""
    output: int
    """Tokens generated."""
    token_passes_without_cache: int
    """Passes if every step runs all tokens so far."""
    token_passes_with_cache: int
    """Passes if each token runs once."""
    ratio: float
    """Passes without a cache divided by passes with one."""
    per_new_token_without_cache: float
    """Passes for each generated token, without a cache."""


@dataclass
class SizeReport:
    """What `kvplan size` prints."""

    schema: str
    """Id of this document: `kvplan.size/1`."""
    model: ModelInfo
    """The model."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    parallel: Layout
    """Parallel sizes asked for."""
    engine: EngineInfo
    """The engine whose rules `engine_bytes` follow."""
    cache: CacheInfo
    """How the cache grows."""
    sequences: tuple[Sequence, ...]
    """One entry for each length asked for."""
    ladder: tuple[Rung, ...]
    """The cache at other, round lengths."""
    same_shape: tuple[SameShape, ...]
    """The same shape under other kinds of attention."""
    work: Work
    """What a cache saves."""
    rule_of_thumb: str | None
    """A common rule of thumb beside its result for this model; null for a model that it doesn't apply to."""
    weight_reads: WeightReads | None
    """Weights that one decode step reads, of one copy of the model; null where they aren't known."""
    explain: Explained
    """The tree of terms behind the longest sequence."""
    verified: bool
    """Whether the rules are those of the release asked for."""
    assumed: Mapping[str, str]
    """Flags that were assumed because nobody gave them."""
    warnings: tuple[str, ...]
    """What was asked that no engine serves, or that the engine of `kvplan fit` refuses."""
    settings: tuple[Setting, ...] = ()
    """Settings from the environment and files, where the command line gave none."""
