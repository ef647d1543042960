"""`kvplan size`."""

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
    """The law's name."""
    layers: int
    """How many layers follow it."""
    bytes_per_token: int
    """bytes_per_entry / stride, rounded to the nearest byte."""
    cap_tokens: int | None
    """Tokens from which it stops growing; null where it never does."""
    stride: int
    """Tokens that share an entry."""
    fixed_bytes: int
    """Kept before the first token."""
    bytes_per_entry: int
    """Of one entry."""
    formula: str
    """The law with the model's dimensions in."""
    source: str
    """Where the law comes from."""


@dataclass
class CacheInfo:
    """The cache of the whole model, one copy, by the formula."""

    attention: str
    """The kind of attention, as it is commonly called."""
    bytes_per_token: int
    """What the first token adds."""
    bytes_per_token_full: int
    """What one more token adds once every window is full."""
    full_after: int
    """Tokens after which every window is full."""
    fixed_bytes_per_sequence: int
    """Kept before the first token."""
    caching_layers: int
    """Layers that keep anything of their own, each counted once, however much it keeps."""
    groups: tuple[Group, ...]
    """Layers by their growth law; a layer that keeps several things is in several."""


@dataclass
class Sequence:
    """One sequence."""

    tokens: int
    """Its length."""
    bytes: int
    """Of the whole model, one copy, by the formula."""
    bytes_per_gpu: int
    """On the fullest GPU, by the formula."""
    engine_bytes: int
    """What the engine takes on all GPUs of one replica, copies of heads and latents included."""
    engine_bytes_per_gpu: int
    """What the engine takes on the fullest GPU."""
    slope_bytes: int
    """What one more token adds at this length, by the formula."""


@dataclass
class Rung:
    """One sequence at a round length: whole model, one copy, by the formula."""

    tokens: int
    """Its length."""
    bytes: int
    """Its cache."""


@dataclass
class SameShape:
    """The same layers and heads under another attention."""

    attention: str
    """Which."""
    bytes_per_token: int
    """What the first token adds."""
    bytes: int
    """Of one sequence at the longest length asked for."""
    ratio: float
    """`bytes` over the model's own."""


@dataclass
class Work:
    """Token passes through the model to generate text, without a cache and with one."""

    prompt: int
    """Tokens given."""
    output: int
    """Tokens generated."""
    token_passes_without_cache: int
    """Every step passes all tokens so far."""
    token_passes_with_cache: int
    """Each token passes once."""
    ratio: float
    """The first over the second."""
    per_new_token_without_cache: float
    """Passes for each generated token, without a cache."""


@dataclass
class SizeReport:
    """`kvplan size`."""

    schema: str
    """`kvplan.size/1`."""
    model: ModelInfo
    """Which model."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    parallel: Layout
    """Parallel sizes asked for."""
    engine: EngineInfo
    """Whose rules `engine_bytes` follow."""
    cache: CacheInfo
    """How the cache grows."""
    sequences: tuple[Sequence, ...]
    """One for each length asked for."""
    ladder: tuple[Rung, ...]
    """The same at other round lengths."""
    same_shape: tuple[SameShape, ...]
    """The same shape under other attention kinds."""
    work: Work
    """What a cache saves."""
    rule_of_thumb: str | None
    """A common rule beside its result for this model; null for a model that it isn't about."""
    weight_reads: WeightReads | None
    """Of one copy of the model; null where its weights aren't known."""
    explain: Explained
    """Where the bytes of the longest sequence come from."""
    verified: bool
    """Whether the rules are those of the release asked for."""
    assumed: Mapping[str, str]
    """What nobody gave."""
    warnings: tuple[str, ...]
    """What no engine, or not the one that plans are made with, would serve of what was asked."""
    settings: tuple[Setting, ...] = ()
    """What the environment and files gave, where the command line didn't."""
