"""`kvplan compare`."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.report.schema.common import KvDtype, Layout, Setting


@dataclass
class Compared:
    """One row: a model in one cache format under one attention."""

    model: str
    """Its name."""
    attention: str
    """Its own kind, or the one asked for."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    tokens: int
    """Of the sequence."""
    bytes_per_token: int
    """What the first token adds."""
    bytes_per_token_full: int
    """What one more token adds once every window is full."""
    fixed_bytes_per_sequence: int
    """Kept before the first token."""
    bytes: int
    """One sequence: whole model, one copy."""
    bytes_per_gpu: int
    """One sequence on the fullest GPU."""
    ratio: float
    """`bytes` over the first row's."""
    notes: tuple[str, ...]
    """What to know of this row."""


@dataclass
class CompareReport:
    """`kvplan compare`."""

    schema: str
    """`kvplan.compare/1`."""
    parallel: Layout
    """Parallel sizes."""
    rows: tuple[Compared, ...]
    """In the order asked for."""
    settings: tuple[Setting, ...] = ()
    """What the environment and files gave, where the command line didn't."""
