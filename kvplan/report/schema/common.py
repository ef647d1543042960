"""Parts that several documents share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.arch.weights import Basis

Scalar = int | float | str | bool | None


@dataclass
class Defaulted:
    """A field that the config leaves out."""

    field: str
    """Its name."""
    value: Scalar
    """The value used instead."""
    source: str
    """Who documents that default."""


@dataclass
class Parameters:
    """Parameter counts; null where the config doesn't say enough."""

    total: int | None
    """Of the whole model."""
    active: int | None
    """That one token uses."""
    exact: bool
    """Whether nothing about them had to be left open."""


@dataclass
class WeightsInfo:
    """One copy of the weights, draft layers not included."""

    bytes: int
    """Of all tensors."""
    basis: Basis
    """What they are worked out from: the config, the checkpoint's own headers, or the format asked about (--weight-dtype)."""
    method: str
    """The quantization, the headers read, or the format asked about."""
    formula_bytes: int | None
    """What the config gives where headers gave `bytes`; else null."""
    missing: tuple[str, ...]
    """Parts that the config doesn't describe."""
    draft: int
    """Parameters of prediction layers, which are in no other count."""


@dataclass
class WeightReads:
    """Bytes of weights that one decode step reads, on all GPUs together."""

    batch: int
    """Sequences of the step."""
    low: int
    """With one token's experts."""
    likely: int
    """With the distinct experts expected if routing is uniform."""
    high: int
    """With as many experts as the batch can choose."""


@dataclass
class ModelInfo:
    """Which model was read, and from where."""

    id: str
    """Its name."""
    family: str
    """The config's model type."""
    source: str
    """Where the config came from."""
    revision: str | None
    """The commit on the Hub; null for files and bundled models."""
    max_context: int | None
    """Tokens; null when the config justifies none."""
    max_context_reason: str
    """What justifies it, or why nothing does."""
    parameters: Parameters
    """How many it has."""
    weights: WeightsInfo | None
    """What they take; null when that isn't known."""
    defaulted: tuple[Defaulted, ...]
    """Fields filled in from documented defaults."""
    notes: tuple[str, ...]
    """What else a reader should know of this model."""


@dataclass
class KvDtype:
    """Formats of keys and of values."""

    k: str
    """Of keys, latents and states."""
    v: str
    """Of values."""


@dataclass
class Layout:
    """How a model is split over GPUs."""

    tp: int
    """Tensor parallel."""
    pp: int
    """Pipeline parallel."""
    dp: int
    """Data parallel."""
    ep: int
    """Expert parallel."""
    dcp: int
    """Decode context parallel."""


@dataclass
class EngineInfo:
    """Whose rules were used."""

    name: str
    """The engine."""
    version: str | None
    """The release; null for the formula, which has none."""


@dataclass
class Explained:
    """One number, and how it comes about."""

    name: str
    """What it is."""
    value: int | float | None
    """The number; null for a term that has none of its own."""
    unit: str
    """Of the value."""
    formula: str
    """With the numbers in."""
    inputs: Mapping[str, Scalar]
    """What the formula takes, by name."""
    source: str
    """Where the formula comes from."""
    children: tuple[Explained, ...]
    """The numbers that it is made of."""


@dataclass
class Setting:
    """One setting in force."""

    name: str
    """As in a file: `kv_dtype`; a variable of another program by its own name."""
    value: str
    """What it is."""
    source: str
    """The flag, variable or file it comes from."""
