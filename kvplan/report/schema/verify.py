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
    """Rows of the embedding on the rank; fewer than the model has where a CPU built them."""
    dtype: str
    """Of the weights here, whatever the checkpoint's."""
    weights_bytes: int
    """Of everything built."""
    memory_limit_bytes: int
    """What the run was allowed on each rank's device: weights, caches and page tables stay within it."""
    page: int | None
    """Tokens of a cache page; null for contiguous caches."""
    left_out: tuple[str, ...]
    """What wasn't built, in words."""
    held: tuple[str, ...]
    """Tensors that take memory and that no module here reads: they count as weights, and as nothing that a step reads."""


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
    """When the run began; of a CPU's, this process's part."""
    cores: int | None
    """A GPU's multiprocessors; of a CPU, the threads that torch uses."""
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
    """Before the run; of a step that is judged, by the line through the other steps."""
    measured: float | None
    """In the run."""
    error: float | None
    """(measured - predicted) / predicted, signed; for a difference, the difference itself."""
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
    """Of weights that it reads, by prediction, without what is only held."""
    kv_bytes: int
    """Of cache that it reads, by prediction."""
    predicted_s: float
    """Those bytes at the copy's speed, and launches where they are known. A step's row may predict otherwise."""
    measured_s: float
    """Median."""
    distinct_experts: float | None
    """Mean over the layers with experts, counted in the last step; null without."""


@dataclass
class Measured:
    """Speeds; null for what wasn't timed or couldn't be counted."""

    copy_bytes_per_s: float | None = None
    """Of a copy in device memory: the bytes read plus the bytes written, so twice what is copied."""
    kv_bytes_per_s: float | None = None
    """Of cache, from the line's slope."""
    weight_bytes_per_s: float | None = None
    """Of weights, from the line's intercept at the smallest batch, launches taken off where they are known."""
    launch_floor_s: float | None = None
    """What a kernel with next to nothing to do takes in a graph; null on a CPU, or where none was captured."""
    kernels: int | None = None
    """Launched by one step of the first batch and context; null where nobody can count them."""
    overhead_s: float | None = None
    """`kernels` times `launch_floor_s`; null where either is."""
    runtime_bytes: int | None = None
    """What the process holds on the device besides its tensors."""
    graphs: bool = False
    """Whether all steps were replayed as CUDA graphs; false on a CPU."""


@dataclass
class VerifyReport:
    """`kvplan verify`: a receipt."""

    schema: str
    """`kvplan.verify/1`."""
    verdict: Outcome
    """`refuted` by at least one row; `confirmed` where none is and a cache's bytes were compared."""
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
    """Which kernel read which cache: by kv or latent, sequences x query heads / KV heads, key + value size, dtype, page, about how many slots, sink, chosen; or `indexer`."""
    notes: tuple[str, ...]
    """What else to know."""
