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
