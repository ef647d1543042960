"""The document of `kvplan compare`."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.report.schema.common import KvDtype, Layout, Setting


@dataclass
class Compared:
    """One row: a model in one cache format under one kind of attention."""

    model: str
    """Name of the model."""
    attention: str
    """The model's own kind of attention, or the one asked for."""
    kv_dtype: KvDtype
    """Formats of the cache."""
    tokens: int
    """Tokens of the sequence."""
    bytes_per_token: int
    """Bytes that the first token adds."""
    bytes_per_token_full: int
    """Bytes that one more token adds once every window is full."""
    fixed_bytes_per_sequence: int
    """Bytes that a sequence keeps before its first token."""
    bytes: int
    """Bytes of one sequence: whole model, one copy."""
    bytes_per_gpu: int
    """Bytes of one sequence on the fullest GPU."""
    ratio: float
    """`bytes` divided by the first row's."""
    notes: tuple[str, ...]
    """What to know about this row."""


@dataclass
class CompareReport:
    """What `kvplan compare` prints."""

    schema: str
    """Id of this document: `kvplan.compare/1`."""
    parallel: Layout
    """Parallel sizes."""
    rows: tuple[Compared, ...]
    """The rows, in the order asked for."""
    settings: tuple[Setting, ...] = ()
    """Settings from the environment and files, where the command line gave none."""
