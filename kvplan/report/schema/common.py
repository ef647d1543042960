"""What several documents hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = int | float | str | bool | None


@dataclass
class Defaulted:
    """A field the config leaves out, the value used, and who documents that default."""

    field: str
    value: Scalar
    source: str


@dataclass
class Parameters:
    """Parameter counts. active: that one token uses. exact: nothing about them had to be left open."""

    total: int | None
    active: int | None
    exact: bool


@dataclass
class WeightsInfo:
    """Bytes of one copy of the weights, draft layers not included.

    basis: config, headers (the checkpoint's own) or what_if (--weight-dtype). method: the quantization, the headers read,
    or the format asked about. formula_bytes: what the config gives where headers gave bytes, else null. missing: parts
    that the config doesn't describe. draft: parameters of prediction layers, which are in no other count.
    """

    bytes: int
    basis: str
    method: str
    formula_bytes: int | None
    missing: tuple[str, ...]
    draft: int


@dataclass
class WeightReads:
    """Bytes of weights that a decode step of `batch` sequences reads, all GPUs of a stage and all stages together.

    low: one token's experts. likely: the distinct experts expected if routing is uniform. high: as many as can be chosen.
    """

    batch: int
    low: int
    likely: int
    high: int


@dataclass
class ModelInfo:
    """Which model was read, from where. max_context: tokens, null when the config justifies none (the reason says why)."""

    id: str
    family: str
    source: str
    revision: str | None
    max_context: int | None
    max_context_reason: str
    parameters: Parameters
    weights: WeightsInfo | None
    defaulted: tuple[Defaulted, ...]
    notes: tuple[str, ...]


@dataclass
class KvDtype:
    """Formats of keys and values."""

    k: str
    v: str


@dataclass
class Layout:
    """Parallel sizes."""

    tp: int
    pp: int
    dp: int
    ep: int
    dcp: int


@dataclass
class EngineInfo:
    """Engine and the version whose rules were used; `ideal` has none."""

    name: str
    version: str | None


@dataclass
class Explained:
    """One number: the formula with numbers in, its inputs, where the formula comes from, what it is made of."""

    name: str
    value: int | float | None
    unit: str
    formula: str
    inputs: Mapping[str, Scalar]
    source: str
    children: tuple[Explained, ...]
