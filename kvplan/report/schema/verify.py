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
    """The part of the model that was built."""

    layers: int
    """Number of layers built."""
    of_layers: int
    """Number of layers of the model."""
    indices: tuple[int, ...]
    """Indices of the layers built."""
    vocabulary: int
    """Rows of the embedding on the rank; a CPU builds fewer than the model has."""
    dtype: str
    """Format of the weights as built, whatever the checkpoint's."""
    weights_bytes: int
    """Bytes of all weights built."""
    memory_limit_bytes: int
    """Memory limit of each rank's device, which weights, caches and page tables stay within."""
    page: int | None
    """Tokens of a cache page; null for contiguous caches."""
    left_out: tuple[str, ...]
    """What wasn't built, in words."""
    held: tuple[str, ...]
    """Tensors that take memory and that no module reads: they count as weights, but not as read by a step."""


@dataclass
class Place:
    """The device of the run."""

    device: str
    """cuda or cpu."""
    name: str
    """Name of the device, as the system reports it."""
    gpu: str | None
    """kvplan's id of the GPU; null if unknown."""
    memory_bytes: int
    """Memory of the device."""
    free_bytes: int
    """Free memory when the run began; on a CPU, this process's part of it."""
    cores: int | None
    """Multiprocessors of a GPU; on a CPU, the threads that torch uses."""
    capability: str | None
    """The GPU's compute capability."""
    driver: str | None
    """Version of NVIDIA's driver."""
    mig: bool
    """Whether the device is a MIG slice."""
    datasheet_bytes_per_s: int | None
    """Bandwidth by the datasheet; null if unknown."""


@dataclass
class Checked:
    """One check."""

    check: Check
    """Stable id of the check."""
    what: str
    """What was compared."""
    unit: Unit
    """Unit of `predicted` and `measured`."""
    predicted: float | None
    """Prediction from before the run; for a step that is judged, from the line through the other steps."""
    measured: float | None
    """Measurement of the run."""
    error: float | None
    """Signed relative error, (measured - predicted) / predicted; for a difference, the difference itself."""
    verdict: Verdict
    """Result of the check; `reported` claims nothing."""
    rule: str
    """How far `measured` may be from `predicted`; or why nothing is claimed; or why it wasn't run."""
    rank: int
    """The tensor rank that measured it."""


@dataclass
class Timed:
    """One timed decode step."""

    batch: int
    """Sequences of the step."""
    context: int
    """Tokens of each sequence."""
    weight_bytes: int
    """Predicted bytes of weights that the step reads, without tensors that are only held."""
    kv_bytes: int
    """Predicted bytes of cache that the step reads."""
    predicted_s: float
    """Those bytes at the copy's speed, plus launches where they are known. The row of the step may predict otherwise."""
    measured_s: float
    """Median of the measured times."""
    distinct_experts: float | None
    """Experts counted in the last step, as a mean over the layers with experts; null without experts."""


@dataclass
class Measured:
    """Measured speeds; null for what wasn't timed or couldn't be counted."""

    copy_bytes_per_s: float | None = None
    """Speed of a copy in device memory: bytes read plus bytes written, so twice what is copied."""
    kv_bytes_per_s: float | None = None
    """Speed of reading the cache, from the line's slope."""
    weight_bytes_per_s: float | None = None
    """Speed of reading the weights, from the line's intercept at the smallest batch, less the launches where they are
    known.
    """
    launch_floor_s: float | None = None
    """Time of an almost empty kernel in a CUDA graph; null on a CPU, or where no graph was captured."""
    kernels: int | None = None
    """Kernels launched by one step of the first batch and context; null where they can't be counted."""
    overhead_s: float | None = None
    """`kernels` times `launch_floor_s`; null where either is."""
    runtime_bytes: int | None = None
    """Bytes that the process holds on the device besides its tensors."""
    graphs: bool = False
    """Whether all steps were replayed as CUDA graphs; false on a CPU."""


@dataclass
class VerifyReport:
    """What `kvplan verify` prints: a receipt."""

    schema: str
    """Id of this document: `kvplan.verify/1`."""
    verdict: Outcome
    """`refuted` if at least one row is; `confirmed` if none is and the bytes of a cache were compared."""
    model: ModelInfo
    """The model."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    parallel: Layout
    """Parallel sizes."""
    rank: int | None
    """The tensor rank that ran; null when all ran."""
    built: Built | None
    """The part of the model that was built; null for a comparison on the meta device."""
    machine: Place | None
    """The device of the run; null for a comparison on the meta device."""
    versions: Mapping[str, str | None]
    """Versions of the packages that matter; null for those not installed."""
    date: str
    """Date of the run, in UTC."""
    seconds: float
    """Duration of the run."""
    rows: tuple[Checked, ...]
    """Every check."""
    steps: tuple[Timed, ...]
    """Every timed step."""
    measured: Measured
    """Measured speeds."""
    readers: Mapping[str, str]
    """The kernel that read each cache, by kv or latent, sequences x query heads / KV heads, key + value size, dtype,
    page, about how many slots, sink, chosen; or `indexer`.
    """
    notes: tuple[str, ...]
    """What else to know about the run."""
