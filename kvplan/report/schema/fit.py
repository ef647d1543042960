"""The documents of `kvplan fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kvplan.engines.base import Binding
from kvplan.report.schema.common import EngineInfo, Explained, KvDtype, Layout, ModelInfo, Setting


@dataclass
class GpuInfo:
    """The GPUs that the plan is for."""

    id: str
    """kvplan's id of the GPU."""
    count: int
    """Number of GPUs."""
    memory_bytes: int
    """Memory of one GPU that a process sees, or the bytes given."""
    bandwidth_bytes_per_s: int
    """Memory bandwidth of one GPU."""
    sources: tuple[str, ...]
    """Sources of memory and bandwidth."""


@dataclass
class Memory:
    """How the memory of one GPU is used."""

    memory_bytes: int
    """Memory that a process sees, or the bytes given."""
    usable_bytes: int
    """Share of the memory that the engine may use."""
    weights_bytes: int | None
    """Weights; null where they aren't known and the size of the cache was given."""
    activation_bytes: int
    """Activations of one step."""
    runtime_bytes: int
    """CUDA graphs, libraries and collectives."""
    kv_bytes: int
    """What is left for the cache."""


@dataclass
class PerGpu(Memory):
    """The memory of the fullest GPU; its own keys hold the likely values."""

    low: Memory
    """The low end of each term."""
    high: Memory
    """The high end of each term."""
    decides: Literal["low", "likely"]
    """The end of `kv_bytes` that the plan counts on: low, unless --likely was given."""
    assumed: Mapping[str, str]
    """Flags that were assumed because nobody gave them."""
    given: tuple[Literal["weights", "overhead", "kv"], ...]
    """Terms that were given on the command line; a given overhead includes the activations."""


@dataclass
class IdealCapacity:
    """What fits by the textbook formula, over all GPUs."""

    kv_bytes: int
    """Cache memory of all GPUs."""
    kv_tokens: int | None
    """Tokens that fit in sequences of `context`; null where nothing grows."""
    max_sequences: int
    """Whole sequences of `context` that fit."""


@dataclass
class Reason:
    """One reason why the engine takes more than the formula."""

    name: str
    """The reason, in words."""
    bytes: int
    """Bytes of one sequence on one GPU; negative where the engine takes less."""


@dataclass
class Reserved:
    """What the engine reserves, prints and admits."""

    kv_bytes: int
    """Cache memory of one GPU."""
    blocks: int | None
    """Blocks of one replica's pool, as the engine prints them; null for an engine without blocks."""
    block_tokens: int | None
    """Tokens of one block; null without blocks."""
    kv_tokens: int
    """Tokens of one replica's pool, as the engine prints them."""
    max_concurrency: float
    """Sequences of `context` in one replica's pool, as the engine prints them."""
    max_sequences: int
    """Sequences that all replicas together admit at once, the engine's own limit included."""
    replicas: int
    """Data-parallel replicas."""
    gap: tuple[Reason, ...]
    """Why the engine holds less than the formula."""


@dataclass
class DecodeInfo:
    """One decode step. Times of reads are at the datasheet's bandwidth unless they say otherwise."""

    batch: int
    """Sequences of the step."""
    context: int
    """Tokens of each sequence."""
    weight_read_s: float
    """Time to read the weights, with the expected number of distinct experts."""
    weight_read_s_low: float
    """Time to read the weights, with one token's experts."""
    kv_read_s: float
    """Time to read the cache."""
    compute_s: float | None
    """Time of the multiplications; null where the GPU's rate isn't known."""
    communication_s: float
    """Time of all-reduces and hand-overs between stages."""
    overhead_s: float
    """Time of kernel launches and gaps."""
    step_s_low: float
    """Lower bound of the step's time, which no public measurement beats."""
    step_s_likely: float
    """Estimate of the step's time: the longer of read_s_likely and compute_s_likely, plus communication_s and
    overhead_s.
    """
    read_s_likely: float
    """Time to read weights and cache at the share of the bandwidth that is likely reached."""
    compute_s_likely: float | None
    """Time of the multiplications at the rate that is likely reached; null where the GPU's rate isn't known."""
    kv_share: float
    """The cache's part of the time to read weights and cache, from 0 to 1."""
    crossover_batch: int | None
    """Smallest batch of this context whose cache takes longer to read than the weights; null if none does."""
    crossover_context: int | None
    """Smallest context at which this batch's cache takes longer to read than the weights; null if none does."""
    tokens_per_s: float
    """Tokens per second of all sequences together, at step_s_likely."""
    fractions: str
    """The shares of the datasheet's speeds behind step_s_likely, and their source."""
    weight_bytes: int
    """Bytes behind weight_read_s: read by one rank of each pipeline stage."""
    weight_bytes_low: int
    """Bytes behind weight_read_s_low."""
    weight_bytes_high: int
    """The same with all experts that the batch can choose."""


@dataclass
class Change:
    """A suggested change."""

    change: str
    """What to type."""
    effect: str
    """What it would change."""


@dataclass
class Extra:
    """Something served beside the model."""

    name: str
    """`adapters` or `draft`."""
    bytes: int
    """Bytes on the fullest GPU, which weights_bytes includes."""
    formula: str
    """Formula of the bytes."""
    cache_bytes: int
    """Bytes that a sequence of `context` keeps for it on the last stage's GPU."""


@dataclass
class FitReport:
    """What `kvplan fit MODEL` prints."""

    schema: str
    """Id of this document: `kvplan.fit/1`."""
    model: ModelInfo
    """The model."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    parallel: Layout
    """Parallel sizes."""
    engine: EngineInfo
    """The engine whose rules decide."""
    gpu: GpuInfo
    """The GPUs."""
    verdict: Literal["fits", "does_not_fit"]
    """Whether it fits."""
    binding: Binding
    """What limits the number of sequences, or what is missing."""
    reason: str | None
    """Why it doesn't fit, in words; null when it fits."""
    short_by_bytes: int | None
    """Bytes missing on the fullest GPU when it doesn't fit; else null."""
    per_gpu: PerGpu
    """The memory of the fullest GPU."""
    ideal: IdealCapacity
    """What fits by the formula."""
    reserved: Reserved | None
    """What the engine reserves; null where it wouldn't start."""
    context: int
    """Tokens of one sequence."""
    max_sequences: int
    """Sequences of `context` that are admitted at once, the engine's own limit included; 0 if none fits."""
    max_context: int | None
    """Longest single sequence that fits, in tokens; null where nothing limits it. Under vLLM's rules the search ends at
    the longer of `context` and the model's own maximum; where that doesn't fit, this is vLLM's estimated maximum model
    length.
    """
    concurrency: int | None
    """Sequences asked for; null when none were."""
    decode: DecodeInfo | None
    """One decode step; null where no sequence fits or the reads aren't known."""
    suggestions: tuple[Change, ...]
    """Single changes that would make it fit, or fit more."""
    explain: Explained | None
    """The tree of terms behind the answer; null in tables of many models."""
    warnings: tuple[str, ...]
    """What to know before trusting the plan."""
    verified: bool
    """Whether the rules are those of the release asked for."""
    engine_error: str | None
    """What the engine prints instead of starting; null when it starts."""
    utilization_needed: float | None
    """Smallest share of memory at which the concurrency asked for fits."""
    utilization_reason: str | None
    """Why there is no such share."""
    launch: str | None
    """The command or manifest that starts the plan; null unless --emit was given."""
    extras: tuple[Extra, ...]
    """Adapters and drafts served beside the model."""
    exceeded: int | None
    """The longest sequence that the config justifies by the engine's rules, where `context` is longer; else null."""
    max_context_name: str | None
    """The engine's own name for max_context; null where it has none."""
    settings: tuple[Setting, ...] = ()
    """Settings from the environment and files, where the command line gave none."""


@dataclass
class Skipped:
    """A model that couldn't be planned."""

    id: str
    """Name of the model."""
    error: str
    """Why it couldn't be planned."""


@dataclass
class FitTable:
    """What `kvplan fit` without MODEL prints."""

    schema: str
    """Id of this document: `kvplan.fit_table/1`."""
    rows: tuple[FitReport, ...]
    """One document for each bundled model."""
    skipped: tuple[Skipped, ...]
    """Bundled models that couldn't be planned."""
    settings: tuple[Setting, ...] = ()
    """Settings from the environment and files, where the command line gave none."""
