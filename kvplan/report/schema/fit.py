"""`kvplan fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.report.schema.common import EngineInfo, Explained, KvDtype, Layout, ModelInfo


@dataclass
class GpuInfo:
    """The GPU a plan is for. memory_bytes: what a process sees, or what was given."""

    id: str
    count: int
    memory_bytes: int
    bandwidth_bytes_per_s: int
    sources: tuple[str, ...]


@dataclass
class Memory:
    """Terms of one GPU's memory; null where a term isn't counted: weights that nobody knows, beside a cache as given."""

    memory_bytes: int
    usable_bytes: int
    weights_bytes: int | None
    activation_bytes: int
    runtime_bytes: int
    kv_bytes: int


@dataclass
class PerGpu(Memory):
    """The fullest GPU's memory, likely; low and high hold each term's own ends.

    decides: the end of kv_bytes that the plan counts on, "low" unless --likely. assumed: flags nobody gave.
    """

    low: Memory
    high: Memory
    decides: str
    assumed: Mapping[str, str]


@dataclass
class IdealCapacity:
    """The textbook formula over all GPUs: kv_bytes / bytes of one sequence."""

    kv_bytes: int
    kv_tokens: int | None
    max_sequences: int


@dataclass
class Reason:
    """Why the engine takes more than the formula, in bytes per sequence on one GPU."""

    name: str
    bytes: int


@dataclass
class Reserved:
    """What the engine will print of one replica, and admit on all of them.

    kv_bytes: of one GPU. blocks, kv_tokens, max_concurrency: of one replica's pool, which each data-parallel replica
    prints for itself. replicas: how many there are. max_sequences: admitted at once by all replicas together, the engine's
    own limit on each included.
    """

    kv_bytes: int
    blocks: int | None
    block_tokens: int | None
    kv_tokens: int
    max_concurrency: float
    max_sequences: int
    replicas: int
    gap: tuple[Reason, ...]


@dataclass
class DecodeInfo:
    """One decode step. Reads are at the datasheet's bandwidth; weight_read_s counts the distinct experts expected.

    weight_bytes: what weight_read_s reads: by one rank of each pipeline stage; low and high: one token's experts, and all
    that the batch can choose. step_s_low: what no public measurement beats. step_s_likely: an estimate; `fractions` says
    with which achieved fractions and whose. tokens_per_s: all sequences together, at step_s_likely.
    """

    batch: int
    context: int
    weight_read_s: float
    weight_read_s_low: float
    kv_read_s: float
    compute_s: float | None
    communication_s: float
    overhead_s: float
    step_s_low: float
    step_s_likely: float
    kv_share: float
    crossover_batch: int | None
    crossover_context: int | None
    tokens_per_s: float
    fractions: str
    weight_bytes: int
    weight_bytes_low: int
    weight_bytes_high: int


@dataclass
class Change:
    """A single change and what it would do."""

    change: str
    effect: str


@dataclass
class Extra:
    """What is served beside the model: `adapters`, or `draft`. bytes: on the fullest GPU, part of weights_bytes.

    formula: of the bytes. cache_bytes: that a sequence of the context keeps for it on the last stage's GPU.
    """

    name: str
    bytes: int
    formula: str
    cache_bytes: int


@dataclass
class FitReport:
    """`kvplan fit MODEL`. short_by_bytes: missing on the fullest GPU when it does not fit, else null.

    verified: whether the rules are those of the version asked for. engine_error: what the engine prints instead of
    starting. utilization_needed: the least share of memory with which the concurrency asked for fits; utilization_reason:
    why there is none. launch: what to paste. exceeded: the longest that the model's config justifies by the engine's rules,
    where context is more; else null. max_context_name: the engine's own name for max_context, null where it has none.
    """

    schema: str
    model: ModelInfo
    kv_dtype: KvDtype
    parallel: Layout
    engine: EngineInfo
    gpu: GpuInfo
    verdict: str
    binding: str
    reason: str | None
    short_by_bytes: int | None
    per_gpu: PerGpu
    ideal: IdealCapacity
    reserved: Reserved | None
    context: int
    max_context: int | None
    concurrency: int | None
    decode: DecodeInfo | None
    suggestions: tuple[Change, ...]
    explain: Explained | None
    warnings: tuple[str, ...]
    verified: bool
    engine_error: str | None
    utilization_needed: float | None
    utilization_reason: str | None
    launch: str | None
    extras: tuple[Extra, ...]
    exceeded: int | None
    max_context_name: str | None


@dataclass
class Skipped:
    """A model that couldn't be planned, and why."""

    id: str
    error: str


@dataclass
class FitTable:
    """`kvplan fit` without MODEL: one document for each bundled model."""

    schema: str
    rows: tuple[FitReport, ...]
    skipped: tuple[Skipped, ...]
