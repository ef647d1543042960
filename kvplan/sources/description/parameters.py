"""Weights of a description that states only their number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.arch.formats import Format
from kvplan.arch.weights import Storage, Weight, Weights
from kvplan.sources.description.node import Node
from kvplan.sources.strict import Path

_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([mbtMBT])", re.ASCII)
_UNITS = {"m": 10**6, "b": 10**9, "t": 10**12}
MOST_PARAMETERS = 10**15


def weights(top: Node, layers: int, dtype: Format) -> Weights | None:
    """Weights of which only the number is known, spread evenly over the layers and the tensor ranks.

    If a token uses k of E experts, `total = shared + E x` and `active = shared + k x` give both parts.
    """
    path, value = top.find("parameters")
    if value is None:
        return None
    stored = _storage(top.format("weight_dtype") or dtype)
    if not isinstance(value, Mapping):
        total, rounding = _parameters(top, path, value)
        return _spread(total, None, layers, stored, rounding)
    node = top.child(path, value)
    node.only(frozenset({"total", "active", "experts", "experts_per_token"}), "parameters")
    total, rounding = _count(node, "total")
    if node.values.get("active") is None:
        return _spread(total, None, layers, stored, rounding)
    active, active_rounding = _count(node, "active")
    experts = node.whole("experts")
    picked = node.whole("experts_per_token", most=experts - 1 or 1)
    if not total * picked <= active * experts <= total * experts:
        least = -(-total * picked // experts)
        raise node.bad((*path, "active"), active, f"from {least:,} (no shared weights) to the total of {total:,}")
    return _spread(total, (active, experts, picked), layers, stored, rounding + active_rounding)


def _storage(dtype: Format) -> Storage:
    group = dtype.block if dtype.scale_bits else 0
    return Storage(dtype.name, dtype.bits, group=group, group_bits=dtype.scale_bits, source=dtype.source)


def _spread(total: int, routing: tuple[int, int, int] | None, layers: int, stored: Storage, rounding: int) -> Weights:
    each: list[Weight] = []
    left = total
    if routing is not None:
        active, experts, picked = routing
        expert = (total - active) // ((experts - picked) * layers)
        if expert:
            each.append(Weight("experts", (expert,), "experts", stored, 0, copies=experts, picked=picked, linear=True))
        left -= expert * experts * layers
    share, rest = divmod(left, layers)
    if share:
        each.append(Weight("all", (share,), "mlp", stored, 0, linear=True))
    last = (Weight("rest", (rest,), "norm", stored),) if rest else ()
    return Weights((), (tuple(each),) * layers, last, method="the description's parameters", rounding=rounding)


def _count(node: Node, key: str) -> tuple[int, int]:
    if node.values.get(key) is None:
        raise node.missing(key)
    return _parameters(node, (*node.path, key), node.values[key])


def _parameters(node: Node, path: Path, value: object) -> tuple[int, int]:
    """A number of parameters, and by how much it may be off: 0 for 8030261248, half a unit of the last digit for 8.03B."""
    from decimal import Decimal

    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_PARAMETERS:
        return value, 0
    match = _COUNT.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        unit, written = _UNITS[match[2].lower()], Decimal(match[1])
        number, last = int(written * unit), unit // 10 ** len(match[1].partition(".")[2])
        if 0 < number <= MOST_PARAMETERS:
            return number, -(-last // 2)
    raise node.bad(path, value, "a number of parameters like 8030261248 or 8.03B")
