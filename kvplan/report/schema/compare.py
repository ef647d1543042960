"""`kvplan compare`."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.report.schema.common import KvDtype, Layout


@dataclass
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


@dataclass
class CompareReport:
    """`kvplan compare`."""

    schema: str
    parallel: Layout
    rows: tuple[Compared, ...]
