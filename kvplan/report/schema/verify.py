"""The document of `kvplan verify`: a receipt of what was built, where, and what every check found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kvplan.report.schema.common import KvDtype, Layout, ModelInfo

Outcome = Literal["confirmed", "refuted"]
Verdict = Literal["confirmed", "refuted", "reported", "not run"]
Check = Literal["recompute", "bytes", "capacity", "time", "meta"]
Unit = Literal["B", "B/s", "s", "sequences", "tokens", "experts", "parameters", "share", "difference"]


@dataclass
class Built:
    """What was made of the model."""

    layers: int
    """How many were built."""
    of_layers: int
    """How many the model has."""
    indices: tuple[int, ...]
    """Which were built."""
    vocabulary: int
    """Rows of the embedding."""
    dtype: str
    """Of the weights here, whatever the checkpoint's."""
    weights_bytes: int
    """Of everything built."""
    memory_limit_bytes: int
    """What the run was allowed."""
    page: int | None
    """Tokens of a cache page; null for contiguous caches."""
    left_out: tuple[str, ...]
    """What wasn't built, in words."""
    held: tuple[str, ...]
    """Tensors that take memory but that no step reads."""


@dataclass
class Place:
    """Where it ran."""

    device: str
    """cuda or cpu."""
    name: str
    """As the system calls it."""
    gpu: str | None
    """kvplan's id; null if unknown."""
    memory_bytes: int
    """The device's."""
    free_bytes: int
    """When the run began."""
    cores: int | None
    """Of a CPU; null on a GPU."""
    capability: str | None
    """The GPU's compute capability."""
    driver: str | None
    """NVIDIA's version."""
    mig: bool
    """Whether it is a slice of a GPU."""
    datasheet_bytes_per_s: int | None
    """Bandwidth by the datasheet; null if unknown."""


@dataclass
class Checked:
    """One check."""

    check: Check
    """Its stable name."""
    what: str
    """What was looked at."""
    unit: Unit
    """Of predicted and measured."""
    predicted: float | None
    """Before the run."""
    measured: float | None
    """In the run."""
    error: float | None
    """(measured - predicted) / predicted, signed."""
    verdict: Verdict
    """What came of it; `reported` claims nothing."""
    rule: str
    """How far measured may be from predicted; or why nothing is claimed; or why it wasn't run."""
    rank: int
    """The tensor rank that measured it."""


@dataclass
class Timed:
    """One decode step."""

    batch: int
    """Sequences."""
    context: int
    """Tokens of each."""
    weight_bytes: int
    """Of weights that it reads, by prediction."""
    kv_bytes: int
    """Of cache that it reads, by prediction."""
    predicted_s: float
    """With the speeds measured in this run."""
    measured_s: float
    """Median."""
    distinct_experts: float | None
    """Mean over the layers with experts, counted in the last step; null without."""


@dataclass
class Measured:
    """Speeds; null where nothing was timed."""

    copy_bytes_per_s: float | None = None
    """Of a copy in device memory, read and written bytes together."""
    kv_bytes_per_s: float | None = None
    """Of cache, from the line's slope."""
    weight_bytes_per_s: float | None = None
    """Of weights, from the line's intercept with launches taken off."""
    launch_floor_s: float = 0.0
    """What an empty kernel takes."""
    kernels: int = 0
    """Of one step."""
    overhead_s: float = 0.0
    """`kernels` times `launch_floor_s`."""
    runtime_bytes: int | None = None
    """What the process holds on the device besides its tensors."""
    graphs: bool = False
    """Whether steps were replayed as CUDA graphs."""


@dataclass
class VerifyReport:
    """`kvplan verify`: a receipt."""

    schema: str
    """`kvplan.verify/1`."""
    verdict: Outcome
    """`refuted` by at least one row."""
    model: ModelInfo
    """Which model."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    parallel: Layout
    """Parallel sizes."""
    rank: int | None
    """The tensor rank that ran; null when all ran."""
    built: Built | None
    """What was made of the model; null for a comparison on the meta device."""
    machine: Place | None
    """Where it ran; null for a comparison on the meta device."""
    versions: Mapping[str, str | None]
    """Of the packages that matter; null for those not installed."""
    date: str
    """When, in UTC."""
    seconds: float
    """That the run took."""
    rows: tuple[Checked, ...]
    """Every check."""
    steps: tuple[Timed, ...]
    """Every step that was timed."""
    measured: Measured
    """Speeds."""
    readers: Mapping[str, str]
    """Which attention kernel read which cache."""
    notes: tuple[str, ...]
    """What else to know."""
