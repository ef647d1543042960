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
    """Name of the field."""
    value: Scalar
    """The value used instead."""
    source: str
    """The documentation of that default."""


@dataclass
class Parameters:
    """Parameter counts; null where the config doesn't say enough."""

    total: int | None
    """Parameters of the whole model."""
    active: int | None
    """Parameters that one token uses."""
    exact: bool
    """Whether the counts are exact."""


@dataclass
class WeightsInfo:
    """One copy of the weights, without draft layers."""

    bytes: int
    """Bytes of all tensors."""
    basis: Basis
    """What the bytes were computed from: the config, the checkpoint's own headers, or a format asked about with
    --weight-dtype.
    """
    method: str
    """The quantization method, the headers that were read, or the format asked about."""
    formula_bytes: int | None
    """Bytes by the config, where `bytes` come from headers; else null."""
    missing: tuple[str, ...]
    """Parts of the model that the config doesn't describe."""
    draft: int
    """Parameters of multi-token-prediction layers, which no other count includes."""


@dataclass
class WeightReads:
    """Bytes of weights that one decode step reads on all GPUs together."""

    batch: int
    """Sequences of the step."""
    low: int
    """Bytes with one token's experts."""
    likely: int
    """Bytes with the expected number of distinct experts, if routing is uniform."""
    high: int
    """Bytes with as many experts as the batch can choose."""


@dataclass
class ModelInfo:
    """The model, and where its config came from."""

    id: str
    """Name of the model."""
    family: str
    """The config's model type."""
    source: str
    """Where the config came from."""
    revision: str | None
    """The commit on the Hub; null for files and bundled models."""
    max_context: int | None
    """Tokens of the longest sequence that the config justifies; null when it justifies none."""
    max_context_reason: str
    """What justifies that length, or why nothing does."""
    parameters: Parameters
    """Number of parameters."""
    weights: WeightsInfo | None
    """Bytes of the weights; null when they aren't known."""
    defaulted: tuple[Defaulted, ...]
    """Fields filled in from documented defaults."""
    notes: tuple[str, ...]
    """What else to know about this model."""


@dataclass
class KvDtype:
    """Formats of keys and of values, by name."""

    k: str
    """Format of keys and latents."""
    v: str
    """Format of values."""


@dataclass
class Layout:
    """How a model is split over GPUs."""

    tp: int
    """Tensor parallel size."""
    pp: int
    """Pipeline parallel size."""
    dp: int
    """Data parallel size."""
    ep: int
    """Expert parallel size."""
    dcp: int
    """Decode context parallel size."""


@dataclass
class EngineInfo:
    """The engine whose rules were used."""

    name: str
    """Name of the engine."""
    version: str | None
    """Release of the engine; null for the formula."""


@dataclass
class Explained:
    """One number of the answer, and how it was computed."""

    name: str
    """What the number is."""
    value: int | float | None
    """The number; null for a term without one."""
    unit: str
    """Unit of the value."""
    formula: str
    """The formula with its numbers filled in."""
    inputs: Mapping[str, Scalar]
    """Inputs of the formula, by name."""
    source: str
    """Where the formula comes from."""
    children: tuple[Explained, ...]
    """The terms that it is made of."""


@dataclass
class Setting:
    """One setting in force."""

    name: str
    """Name as in a settings file (`kv_dtype`), or another program's variable."""
    value: str
    """Value of the setting."""
    source: str
    """The flag, variable or file that sets it."""
