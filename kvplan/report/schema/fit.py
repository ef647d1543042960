"""`kvplan fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kvplan.engines.base import Binding
from kvplan.report.schema.common import EngineInfo, Explained, KvDtype, Layout, ModelInfo, Setting


@dataclass
class GpuInfo:
    """The GPUs a plan is for."""

    id: str
    """kvplan's name for the kind."""
    count: int
    """How many."""
    memory_bytes: int
    """What a process sees of one, or what was given."""
    bandwidth_bytes_per_s: int
    """Of one GPU's memory."""
    sources: tuple[str, ...]
    """Of memory and bandwidth."""


@dataclass
class Memory:
    """Terms of one GPU's memory."""

    memory_bytes: int
    """What a process sees, or what was given."""
    usable_bytes: int
    """The share that the engine may use."""
    weights_bytes: int | None
    """Null where nobody knows them and the cache's size was given."""
    activation_bytes: int
    """Of a step."""
    runtime_bytes: int
    """Graphs, libraries, collectives."""
    kv_bytes: int
    """What is left for the cache."""


@dataclass
class PerGpu(Memory):
    """The fullest GPU's memory, as it is likely."""

    low: Memory
    """Each term's low end."""
    high: Memory
    """Each term's high end."""
    decides: Literal["low", "likely"]
    """The end of `kv_bytes` that the plan counts on: low unless --likely."""
    assumed: Mapping[str, str]
    """Flags that nobody gave."""
    given: tuple[Literal["weights", "overhead", "kv"], ...]
    """Terms that were given instead of worked out; activations are a part of a given overhead."""


@dataclass
class IdealCapacity:
    """The textbook formula over all GPUs."""

    kv_bytes: int
    """Cache memory of all GPUs."""
    kv_tokens: int | None
    """Tokens it holds in sequences of the context; null where nothing grows."""
    max_sequences: int
    """Whole sequences of the context."""


@dataclass
class Reason:
    """Why the engine takes more than the formula."""

    name: str
    """The reason."""
    bytes: int
    """Of one sequence on one GPU; negative where the engine takes less."""


@dataclass
class Reserved:
    """What the engine will print, and admit."""

    kv_bytes: int
    """Cache memory of one GPU."""
    blocks: int | None
    """Of one replica's pool, as it prints them; null for an engine without blocks."""
    block_tokens: int | None
    """Tokens of one block; null without blocks."""
    kv_tokens: int
    """Of one replica's pool, as it prints them."""
    max_concurrency: float
    """Sequences of the context in one replica's pool, as it prints them."""
    max_sequences: int
    """Admitted at once by all replicas together, the engine's own limit on each included."""
    replicas: int
    """Data-parallel replicas."""
    gap: tuple[Reason, ...]
    """Why it holds less than the formula."""


@dataclass
class DecodeInfo:
    """One decode step. Reads are at the datasheet's bandwidth."""

    batch: int
    """Sequences of the step."""
    context: int
    """Tokens of each."""
    weight_read_s: float
    """With the distinct experts expected."""
    weight_read_s_low: float
    """With one token's experts."""
    kv_read_s: float
    """Of the cache."""
    compute_s: float | None
    """Of the multiplications; null where the GPU's rate isn't known."""
    communication_s: float
    """All-reduces and the like."""
    overhead_s: float
    """Launches and gaps."""
    step_s_low: float
    """What no public measurement beats."""
    step_s_likely: float
    """An estimate: the longer of read_s_likely and compute_s_likely, communication_s and overhead_s."""
    read_s_likely: float
    """Of weights and cache, at the shares of the bandwidth that are likely reached."""
    compute_s_likely: float | None
    """The same for the multiplications; null where the GPU's rate isn't known."""
    kv_share: float
    """Of the reading: the cache's part, from 0 to 1."""
    crossover_batch: int | None
    """Sequences of this context from which the cache takes longer to read than the weights; null for never."""
    crossover_context: int | None
    """Tokens from which it does for this batch; null for never."""
    tokens_per_s: float
    """All sequences together, at step_s_likely."""
    fractions: str
    """Shares of the datasheet's speeds that step_s_likely counts on, and whose."""
    weight_bytes: int
    """What weight_read_s reads: by one rank of each pipeline stage."""
    weight_bytes_low: int
    """The same with one token's experts."""
    weight_bytes_high: int
    """The same with all experts that the batch can choose."""


@dataclass
class Change:
    """A single change."""

    change: str
    """What to type."""
    effect: str
    """What it would do."""


@dataclass
class Extra:
    """What is served beside the model."""

    name: str
    """`adapters` or `draft`."""
    bytes: int
    """On the fullest GPU; part of weights_bytes."""
    formula: str
    """Of the bytes."""
    cache_bytes: int
    """That a sequence of the context keeps for it on the last stage's GPU."""


@dataclass
class FitReport:
    """`kvplan fit MODEL`."""

    schema: str
    """`kvplan.fit/1`."""
    model: ModelInfo
    """Which model."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    parallel: Layout
    """Parallel sizes."""
    engine: EngineInfo
    """Whose rules decide."""
    gpu: GpuInfo
    """The GPUs."""
    verdict: Literal["fits", "does_not_fit"]
    """Whether it fits."""
    binding: Binding
    """What limits it."""
    reason: str | None
    """Why it doesn't fit, in words; null when it fits."""
    short_by_bytes: int | None
    """Missing on the fullest GPU when it doesn't fit; else null."""
    per_gpu: PerGpu
    """The fullest GPU's memory."""
    ideal: IdealCapacity
    """What the formula holds."""
    reserved: Reserved | None
    """What the engine holds; null where it wouldn't start."""
    context: int
    """Tokens of one sequence."""
    max_sequences: int
    """Sequences of the context that are admitted at once, the engine's own limit included; 0 where not one fits."""
    max_context: int | None
    """Longest single sequence that fits; null where nothing limits it. vLLM's rules look no further than the longer of
    context and the model's own maximum; where that doesn't fit, it is vLLM's estimated maximum model length."""
    concurrency: int | None
    """Sequences asked for; null when nobody asked."""
    decode: DecodeInfo | None
    """A step; null where no sequence fits or reads aren't known."""
    suggestions: tuple[Change, ...]
    """Single changes that would make it fit, or fit more."""
    explain: Explained | None
    """Where the memory for the cache comes from; null in tables."""
    warnings: tuple[str, ...]
    """What to know before trusting the plan."""
    verified: bool
    """Whether the rules are those of the release asked for."""
    engine_error: str | None
    """What the engine prints instead of starting; else null."""
    utilization_needed: float | None
    """The least share of memory with which the concurrency asked for fits."""
    utilization_reason: str | None
    """Why there is no such share."""
    launch: str | None
    """What to paste; null unless --emit."""
    extras: tuple[Extra, ...]
    """Adapters and drafts served beside the model."""
    exceeded: int | None
    """The longest that the model's config justifies by the engine's rules, where context is more; else null."""
    max_context_name: str | None
    """The engine's own name for max_context; null where it has none."""
    settings: tuple[Setting, ...] = ()
    """What the environment and files gave, where the command line didn't."""


@dataclass
class Skipped:
    """A model that couldn't be planned."""

    id: str
    """Its name."""
    error: str
    """Why."""


@dataclass
class FitTable:
    """`kvplan fit` without MODEL."""

    schema: str
    """`kvplan.fit_table/1`."""
    rows: tuple[FitReport, ...]
    """One document for each bundled model."""
    skipped: tuple[Skipped, ...]
    """Those that couldn't be planned."""
    settings: tuple[Setting, ...] = ()
    """What the environment and files gave, where the command line didn't."""
