"""Faults that a reader of a cache may have, and a device check must notice: each makes another query of the right one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.verify.live.kernels.attend import Query
from kvplan.verify.live.rows import Rows
from kvplan.verify.parts import AttentionPart, LatentPart

Part = AttentionPart | LatentPart


def _with(rows: Rows, **tensors: Tensor) -> Rows:
    other = copy.copy(rows)
    for name, tensor in tensors.items():
        setattr(other, name, tensor)
    return other


def _scales(rows: Rows, change: Callable[[Tensor], Tensor]) -> Rows:
    assert rows.scales is not None
    return _with(rows, scales=change(rows.scales))


def _first(scales: Tensor) -> Tensor:
    """Everybody's is the first slot's."""
    return scales[:, :, :1].expand_as(scales).contiguous()


def _values(query: Query, change: Callable[[Rows], Rows]) -> Query:
    assert query.values is not None
    return replace(query, values=change(query.values))


FAULTS: dict[str, Callable[[Query], Query]] = {
    "keys count for nothing": lambda query: replace(query, scale=0.0),
    "scores twice as large": lambda query: replace(query, scale=2 * query.scale),
    "another head's query": lambda query: replace(query, queries=query.queries.roll(1, 1)),
    "another sequence's query": lambda query: replace(query, queries=query.queries.roll(1, 0)),
    "the last slot unread": lambda query: replace(query, slots=query.slots - 1),
    "an eighth of the slots unread": lambda query: replace(query, slots=query.slots * 7 // 8),
    "no sink": lambda query: replace(query, sink=None),
    "another head's sink": lambda query: replace(query, sink=None if query.sink is None else query.sink.roll(1, 0)),
    "another head's keys": lambda query: replace(
        query, keys=_with(query.keys, elements=query.keys.elements.roll(1, 1).contiguous())
    ),
    "another head's values": lambda query: _values(
        query, lambda rows: _with(rows, elements=rows.elements.roll(1, 1).contiguous())
    ),
    "every key with the first's scale": lambda query: replace(query, keys=_scales(query.keys, _first)),
    "every value with the first's scale": lambda query: _values(query, lambda rows: _scales(rows, _first)),
    "keys with a scale of 2^-7": lambda query: replace(
        query, keys=_scales(query.keys, lambda scales: scales * 0 + 2.0**-7)
    ),
}


def concerning(query: Query) -> dict[str, Callable[[Query], Query]]:
    """Those that can be made of a query: no fault with sinks or scales where there are none."""
    absent = []
    if query.sink is None:
        absent.append("sink")
    if query.keys.scales is None:
        absent.append("scale")
    if query.values is None:
        absent.append("value")
    if query.keys.heads == 1:
        absent += ["head's keys", "head's values"]
    if query.chosen is not None:
        absent.append("unread")
    return {name: fault for name, fault in FAULTS.items() if not any(word in name for word in absent)}


def both(name: str) -> KvFormat:
    return KvFormat(FORMATS[name], FORMATS[name])
