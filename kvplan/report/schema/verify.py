"""The document of `kvplan verify`: a receipt of what was built, where, and what every check found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.report.schema.common import KvDtype, Layout, ModelInfo


@dataclass
class Built:
    """What was made of the model: layers of how many, which; rows of vocabulary; bytes it was allowed.

    dtype: of the weights here, whatever the checkpoint's. page: tokens of a cache page, null for contiguous caches.
    left_out: what wasn't built, in words. held: names of tensors that take memory but that no step reads.
    """

    layers: int
    of_layers: int
    indices: tuple[int, ...]
    vocabulary: int
    dtype: str
    weights_bytes: int
    memory_limit_bytes: int
    page: int | None
    left_out: tuple[str, ...]
    held: tuple[str, ...]


@dataclass
class Place:
    """Where it ran. memory_bytes: the device's; free_bytes: when the run began; gpu: kvplan's id, null if unknown."""

    device: str
    name: str
    gpu: str | None
    memory_bytes: int
    free_bytes: int
    cores: int | None
    capability: str | None
    driver: str | None
    mig: bool
    datasheet_bytes_per_s: int | None


@dataclass
class Checked:
    """One check. error: signed, (measured - predicted) / predicted. rank: the tensor rank that measured it.

    verdict: confirmed, refuted, reported (measured, nothing claimed) or not run. rule: how far measured may be from
    predicted; why nothing is claimed; why it wasn't run.
    """

    check: str
    what: str
    unit: str
    predicted: float | None
    measured: float | None
    error: float | None
    verdict: str
    rule: str
    rank: int


@dataclass
class Timed:
    """A step of `batch` sequences of `context` tokens: bytes it reads by prediction, seconds predicted and measured.

    distinct_experts: mean over the layers with experts, counted in the last step; null without.
    """

    batch: int
    context: int
    weight_bytes: int
    kv_bytes: int
    predicted_s: float
    measured_s: float
    distinct_experts: float | None


@dataclass
class Measured:
    """Speeds; null where nothing was timed. weight_bytes_per_s: from the line's intercept, launches taken off.

    kv_bytes_per_s: from its slope. overhead_s: kernels of a step times what an empty one takes. runtime_bytes: what the
    process holds on the device besides its tensors. graphs: whether steps were replayed as CUDA graphs.
    """

    copy_bytes_per_s: float | None = None
    kv_bytes_per_s: float | None = None
    weight_bytes_per_s: float | None = None
    launch_floor_s: float = 0.0
    kernels: int = 0
    overhead_s: float = 0.0
    runtime_bytes: int | None = None
    graphs: bool = False


@dataclass
class VerifyReport:
    """`kvplan verify`. verdict: confirmed, or refuted by at least one row. rank: null when all ranks ran.

    built, machine: null for a comparison on the meta device. seconds: the run took. readers: which attention kernel
    read which cache.
    """

    schema: str
    verdict: str
    model: ModelInfo
    kv_dtype: KvDtype
    parallel: Layout
    rank: int | None
    built: Built | None
    machine: Place | None
    versions: Mapping[str, str | None]
    date: str
    seconds: float
    rows: tuple[Checked, ...]
    steps: tuple[Timed, ...]
    measured: Measured
    readers: Mapping[str, str]
    notes: tuple[str, ...]
