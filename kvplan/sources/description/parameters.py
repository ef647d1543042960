"""Weights of which a description says only how many there are."""

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
_ROUNDED = "digits that a rounded count leaves out"


def weights(top: Node, layers: int, dtype: Format) -> Weights | None:
    """Weights of which only the number is known: spread evenly over the layers, and over the tensor ranks.

    With experts, of E of which a token uses k, `total = shared + E x` and `active = shared + k x` give both parts.
    """
    path, value = top.find("parameters")
    if value is None:
        return None
    stored = _storage(top.format("weight_dtype") or dtype)
    if not isinstance(value, Mapping):
        total, exact = _parameters(top, path, value)
        return _spread(total, None, layers, stored, exact=exact)
    node = top.child(path, value)
    node.only(frozenset({"total", "active", "experts", "experts_per_token"}), "parameters")
    total, exact = _count(node, "total")
    if node.values.get("active") is None:
        return _spread(total, None, layers, stored, exact=exact)
    active, active_exact = _count(node, "active")
    experts = node.whole("experts")
    picked = node.whole("experts_per_token", most=experts - 1 or 1)
    if not total * picked <= active * experts <= total * experts:
        least = -(-total * picked // experts)
        raise node.bad((*path, "active"), active, f"from {least:,} (no shared weights) to the total of {total:,}")
    return _spread(total, (active, experts, picked), layers, stored, exact=exact and active_exact)


def _storage(dtype: Format) -> Storage:
    group = dtype.block if dtype.scale_bits else 0
    return Storage(dtype.name, dtype.bits, group=group, group_bits=dtype.scale_bits, source=dtype.source)


def _spread(total: int, routing: tuple[int, int, int] | None, layers: int, stored: Storage, *, exact: bool) -> Weights:
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
    missing = () if exact else (_ROUNDED,)
    return Weights((), (tuple(each),) * layers, last, missing=missing, method="the description's parameters")


def _count(node: Node, key: str) -> tuple[int, bool]:
    if node.values.get(key) is None:
        raise node.missing(key)
    return _parameters(node, (*node.path, key), node.values[key])


def _parameters(node: Node, path: Path, value: object) -> tuple[int, bool]:
    """A number of parameters, and whether it is exact: 8030261248 is, 8.03B isn't."""
    from decimal import Decimal

    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_PARAMETERS:
        return value, True
    match = _COUNT.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        number = int(Decimal(match[1]) * _UNITS[match[2].lower()])
        if 0 < number <= MOST_PARAMETERS:
            return number, False
    raise node.bad(path, value, "a number of parameters like 8030261248 or 8.03B")
