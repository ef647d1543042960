"""The JSON that kvplan prints, as dataclasses: the one stable interface. Everything a person sees is drawn from it.

Bytes, tokens and counts are integers, times are seconds. Unknown is null, never absent. Keys may be added, never
renamed or removed within a schema number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Defaulted:
    """A field the config leaves out, the value used, and who documents that default."""

    field: str
    value: Scalar
    source: str


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameter counts. active: that one token uses. exact: nothing about them had to be left open."""

    total: int | None
    active: int | None
    exact: bool


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which model was read, from where. max_context: tokens, null when the config justifies none (the reason says why)."""

    id: str
    family: str
    source: str
    revision: str | None
    max_context: int | None
    max_context_reason: str
    parameters: Parameters
    defaulted: tuple[Defaulted, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KvDtype:
    """Formats of keys and values."""

    k: str
    v: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Parallel sizes."""

    tp: int
    pp: int
    dp: int
    ep: int
    dcp: int


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Engine and the version whose rules were used; `ideal` has none."""

    name: str
    version: str | None


@dataclass(frozen=True, slots=True)
class Explained:
    """One number: the formula with numbers in, its inputs, where the formula comes from, what it is made of."""

    name: str
    value: int | float | None
    unit: str
    formula: str
    inputs: Mapping[str, Scalar]
    source: str
    children: tuple[Explained, ...]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Rung:
    """Bytes of one sequence at one length: whole model, one copy."""

    tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SameShape:
    """The same layers and heads under another attention. ratio: its bytes at the longest length over the model's own."""

    attention: str
    bytes_per_token: int
    bytes: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Work:
    """Token passes to generate `output` tokens after `prompt`, without a cache and with one."""

    prompt: int
    output: int
    token_passes_without_cache: int
    token_passes_with_cache: int
    ratio: float
    per_new_token_without_cache: float


@dataclass(frozen=True, slots=True)
class SizeReport:
    """`kvplan size`."""

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
    rule_of_thumb: str
    explain: Explained


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """The GPU a plan is for. memory_bytes: what a process sees, or what was given."""

    id: str
    count: int
    memory_bytes: int
    bandwidth_bytes_per_s: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Terms of one GPU's memory; null where a term wasn't needed or isn't known."""

    memory_bytes: int
    usable_bytes: int
    weights_bytes: int | None
    activation_bytes: int
    runtime_bytes: int
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class PerGpu:
    """The fullest GPU's memory, likely; low and high hold each term's own ends.

    decides: the end of kv_bytes that the plan counts on, "low" unless --likely. assumed: flags nobody gave.
    """

    memory_bytes: int
    usable_bytes: int
    weights_bytes: int | None
    activation_bytes: int
    runtime_bytes: int
    kv_bytes: int
    low: Memory
    high: Memory
    decides: str
    assumed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class IdealCapacity:
    """The textbook formula over all GPUs: kv_bytes / bytes of one sequence."""

    kv_bytes: int
    kv_tokens: int | None
    max_sequences: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the engine takes more than the formula, in bytes per sequence on one GPU."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """What the engine will print (kv_bytes, blocks, kv_tokens, max_concurrency: of one replica, kv_bytes of one GPU).

    max_sequences: admitted at once by all replicas.
    """

    kv_bytes: int
    blocks: int | None
    block_tokens: int | None
    kv_tokens: int
    max_concurrency: float
    max_sequences: int
    gap: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class DecodeInfo:
    """One decode step. Reads are at the datasheet's bandwidth; weight_read_s counts the distinct experts expected.

    step_s_low: what no public measurement beats. step_s_likely: an estimate; `fractions` says with which achieved
    fractions and whose. tokens_per_s: all sequences together, at step_s_likely.
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


@dataclass(frozen=True, slots=True)
class Change:
    """A single change and what it would do."""

    change: str
    effect: str


@dataclass(frozen=True, slots=True)
class FitReport:
    """`kvplan fit MODEL`. short_by_bytes: missing on the fullest GPU when it does not fit, else null."""

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


@dataclass(frozen=True, slots=True)
class Skipped:
    """A model that couldn't be planned, and why."""

    id: str
    error: str


@dataclass(frozen=True, slots=True)
class FitTable:
    """`kvplan fit` without MODEL: one document for each bundled model."""

    schema: str
    rows: tuple[FitReport, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """One row: a model in one cache format under one attention. ratio: its bytes over the first row's."""

    model: str
    attention: str
    kv_dtype: KvDtype
    tokens: int
    bytes_per_token: int
    bytes_per_token_full: int
    fixed_bytes_per_sequence: int
    bytes: int
    bytes_per_gpu: int
    ratio: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompareReport:
    """`kvplan compare`."""

    schema: str
    parallel: Layout
    rows: tuple[Compared, ...]


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One bundled model."""

    id: str
    aliases: tuple[str, ...]
    family: str
    max_context: int | None
    attention: str
    bytes_per_token: int
    fixed_bytes_per_sequence: int
    parameters: Parameters
    source: str


@dataclass(frozen=True, slots=True)
class ModelsReport:
    """`kvplan models`."""

    schema: str
    models: tuple[ListedModel, ...]


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A number, its kind (vendor, measured, derived, given) and its sources."""

    value: int
    kind: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """One accelerator."""

    id: str
    name: str
    vendor: str
    architecture: str
    aliases: tuple[str, ...]
    memory: KnownFact
    memory_marketed: KnownFact | None
    bandwidth: KnownFact
    bandwidth_measured: KnownFact | None
    flops: Mapping[str, KnownFact]
    link: KnownFact | None
    memory_type: str | None
    compute_capability: str | None
    unified: bool
    fp8_kv_native: bool | None
    segment: str | None
    mig_of: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GpusReport:
    """`kvplan gpus`."""

    schema: str
    gpus: tuple[ListedGpu, ...]


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule of an engine: the version it starts at, what it says, who says so, whether that version is certain."""

    since: str
    says: str
    source: str
    certain: bool


@dataclass(frozen=True, slots=True)
class ListedEngine:
    """One engine policy. newest: the version used when none is named. oldest: the first its rules hold for."""

    name: str
    newest: str | None
    oldest: str | None
    rules: tuple[ListedRule, ...]


@dataclass(frozen=True, slots=True)
class EnginesReport:
    """`kvplan engines`."""

    schema: str
    engines: tuple[ListedEngine, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in force and where it comes from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class EnvReport:
    """`kvplan env`: what a bug report needs, tokens never shown. driver: of NVIDIA's, or why none was found."""

    schema: str
    kvplan: str
    python: str
    platform: str
    packages: Mapping[str, str | None]
    bundled_models: int | None
    bundled_gpus: int | None
    driver: str
    gpus_here: tuple[str, ...]
    settings: tuple[Setting, ...]


Document = SizeReport | FitReport | FitTable | CompareReport | ModelsReport | GpusReport | EnginesReport | EnvReport

SCHEMAS: dict[str, type] = {
    "size": SizeReport,
    "fit": FitReport,
    "fit_table": FitTable,
    "compare": CompareReport,
    "models": ModelsReport,
    "gpus": GpusReport,
    "engines": EnginesReport,
    "env": EnvReport,
}


def schema_id(name: str) -> str:
    """`kvplan.size/1`."""
    return f"kvplan.{name}/1"
