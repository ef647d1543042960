"""A quantization block as engines see it: its method, its schemes of packed integers, the keys it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kvplan.arch.quantized import Quantized, Scheme

Node = Mapping[str, Any]
PLAIN_BITS = 16
"""Bits from which on a module that a block names is not quantized."""


UNNAMED = ("mlx", "unknown")


def stated(node: Node, method: str, *, unnamed: bool = False) -> Quantized:
    """The facts of a block. method: its own, or what follows from its keys. unnamed: whether it names none, as MLX's don't."""
    written = str(node.get("quant_method") or ("" if method in UNNAMED else method)).lower()
    return Quantized(
        method=written.replace("compressed_tensors", "compressed-tensors"),
        unnamed=unnamed and (method != "unknown" or "quant_method" in node),
        algorithm=str(node.get("quant_algo") or "").upper(),
        packing=str(node.get("packing_format") or ""),
        activations=str(node.get("activation_scheme") or "") if written == "fp8" else "",
        schemes=tuple(dict.fromkeys(_SCHEMES.get(written, _none)(node))),
        keys=tuple(sorted(name for name, value in node.items() if value is not None)),
    )


def _none(_: Node) -> Iterator[Scheme]:
    return iter(())


def _one(node: Node, base: Node) -> Iterator[Scheme]:
    bits = node.get("bits", node.get("w_bit", base.get("bits", base.get("w_bit"))))
    group = node.get("group_size", node.get("q_group_size", base.get("group_size", base.get("q_group_size", -1))))
    symmetric = node.get("sym", base.get("sym"))
    if isinstance(bits, int) and isinstance(group, int) and (bits < PLAIN_BITS or not base):
        yield Scheme(bits, group if group > 0 else -1, None if symmetric is None else bool(symmetric))


def _gptq(node: Node) -> Iterator[Scheme]:
    """Rules of `dynamic` change the base scheme for the modules they match; those that begin with "-:" skip modules."""
    yield from _one(node, {})
    for pattern, change in _entries(node.get("dynamic")):
        if not pattern.startswith("-:"):
            yield from _one(change, node)


def _autoround(node: Node) -> Iterator[Scheme]:
    yield from _one(node, {})
    for _, change in _entries(node.get("extra_config")):
        yield from _one(change, node)


def _compressed(node: Node) -> Iterator[Scheme]:
    for _, group in _entries(node.get("config_groups")):
        weights = group.get("weights")
        if isinstance(weights, Mapping) and weights.get("type") == "int" and not group.get("input_activations"):
            for found in _one({**weights, "bits": weights.get("num_bits"), "sym": weights.get("symmetric")}, {}):
                yield Scheme(found.bits, found.group, found.symmetric, _order(weights.get("actorder")))


def _order(stated_order: object) -> str:
    """True was an older spelling of "group"."""
    return "group" if stated_order is True else str(stated_order or "").lower()


def _entries(node: object) -> Iterator[tuple[str, Node]]:
    for name, entry in node.items() if isinstance(node, Mapping) else ():
        if isinstance(entry, Mapping):
            yield str(name), entry


_SCHEMES: dict[str, Callable[[Node], Iterator[Scheme]]] = {
    "gptq": _gptq, "awq": lambda node: _one(node, {}), "auto-round": _autoround, "compressed-tensors": _compressed,
    "compressed_tensors": _compressed,
}  # fmt: skip
