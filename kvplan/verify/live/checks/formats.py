"""Part of check a: a number stored in a cache format is off by at most one step of the format.

Decoding and recomputing both see the stored value, so neither notices a wrong scale. This check does; it takes the
steps from the formats' definitions.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kvplan.arch.formats import Format, KvFormat
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.rows import Layout, Rows
from kvplan.verify.live.stored import stored
from kvplan.verify.parts import AttentionPart, Blueprint, LatentPart
from kvplan.verify.verdict import Row, within

_ROWS = 16
_SPREADS = (0.1, 1.0)
"""Magnitudes of the stored vectors, in turn, so that the scale of another row is wrong by a factor."""
_MANTISSA = {torch.float8_e4m3fn: (3, -9), torch.float8_e5m2: (2, -16)}
"""Bits of the mantissa, and exponent of the smallest number. Source: OCP 8-bit Floating Point Specification 1.0, table
1.
"""


def round_trips(plan: Blueprint, kv: KvFormat, device: torch.device) -> Iterator[Row]:
    """A row for each format and vector length that the model stores."""
    asked = [pair for part in plan.mixers for pair in _stored(part, kv)]
    for format_, dim in dict.fromkeys(asked):
        how = stored(format_, dim)
        if how is not None and not how.native:
            yield _one(format_, dim, device)


def _stored(part: object, kv: KvFormat) -> Iterator[tuple[Format, int]]:
    if isinstance(part, AttentionPart):
        yield kv.k, part.k_dim
        yield kv.v, part.v_dim
    if isinstance(part, LatentPart):
        yield kv.k, part.rank + part.rope_dim
        if part.indexer is not None:
            yield part.indexer.stored, part.indexer.dim


def _one(format_: Format, dim: int, device: torch.device) -> Row:
    ledger = Ledger(device, None, seed=11)
    rows = Rows(
        ledger, batch=_ROWS, heads=2, slots=len(_SPREADS), dim=dim, format_=format_, dtype=torch.float32, layout=Layout(),
        table=None,
    )  # fmt: skip
    numbers = torch.randn((_ROWS, 2, len(_SPREADS), dim), generator=ledger.random, device=device).clamp_(-4, 4)
    numbers *= torch.tensor(_SPREADS, device=device)[:, None]
    for slot in range(len(_SPREADS)):
        rows.write(slot, numbers[:, :, slot])
    apart = (rows.read(0, len(_SPREADS)) - numbers).abs() / _step(rows, numbers)
    most = float(apart.max())
    what = f"vectors of {dim} stored in {format_.name} and read, in steps of the format"
    return within("recompute", what, "difference", 0.0, most, 1.0, "at most one step from what was stored")


def _step(rows: Rows, numbers: Tensor) -> Tensor:
    """Distance between the format's neighbours at each number, if the largest of a group takes the largest element."""
    how = rows.how
    group = how.group or rows.dim
    largest = numbers.abs().unflatten(-1, (-1, group)).amax(-1, keepdim=True)
    unit = largest / (how.largest or 1.0) if how.group is not None else torch.full_like(largest, how.fixed_scale)
    if how.scale == torch.float8_e8m0fnu:
        unit = unit * 2  # a power of two, rounded up
    steps = unit.expand(*unit.shape[:-1], group).flatten(-2)
    if how.dtype == torch.int8:
        return steps * 1.01  # a scale of 16 bits is itself rounded
    mantissa, smallest = _MANTISSA[how.dtype]
    return torch.maximum(numbers.abs() * 2.0**-mantissa, steps * 2.0**smallest)
