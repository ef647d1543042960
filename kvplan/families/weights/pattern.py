"""Which layers have one MLP and which have experts, however a config says it."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.families import typed
from kvplan.families.fields import Fields
from kvplan.families.weights.symbols import ConfigSymbols


def feed_forwards(fields: Fields, symbols: ConfigSymbols, count: int) -> tuple[str, ...]:
    """MLP or experts for each of `count` layers.

    Raises: BadField.
    """
    if not symbols.maybe("E") or symbols.given.get("no_experts"):
        return ("dense",) * count
    stated = _listed(fields, count)
    if stated is not None:
        return tuple("moe" if on else "dense" for on in stated)
    rule = _rule(fields, symbols)
    return tuple("moe" if rule(layer) else "dense" for layer in range(count))


def _listed(fields: Fields, count: int) -> tuple[bool, ...] | None:
    """A list with an entry for each layer, or the numbers of the layers with experts."""
    types = fields.items("mlp_layer_types")
    if types is not None and len(types) >= count:
        return tuple(entry != "dense" for entry in types[:count])
    frequency = fields.find("moe_layer_freq")
    if frequency is not None and isinstance(frequency[1], list) and len(frequency[1]) >= count:
        return tuple(typed.switch(fields.path + frequency[0], entry) for entry in frequency[1][:count])
    numbers = fields.find("moe_layers", "moe_layers_enum")
    if numbers is not None and numbers[1]:
        entries = (
            numbers[1].split(",")
            if isinstance(numbers[1], str)
            else list(numbers[1] if isinstance(numbers[1], list) else ())
        )
        chosen = {int(entry) for entry in entries if str(entry).strip().isdigit()}
        return tuple(layer in chosen for layer in range(count))
    if types is None and not fields.has("first_k_dense_replace", "moe_layer_freq", "num_dense_layers"):
        law = fields.defaults.pattern("mlp_layer_types", count)
        if law is not None:
            return tuple(entry != "dense" for entry in law)
    return None


STEPS = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
"""Fields that say every which layer has experts, which classes divide by."""


def _rule(fields: Fields, symbols: ConfigSymbols) -> Callable[[int], bool]:
    """A period, a first layer, exceptions: every rule that the config states must agree."""
    dense = symbols.maybe("first_k_dense_replace") or symbols.maybe("num_dense_layers") or 0
    exceptions = fields.wholes("mlp_only_layers") or ()
    steps = [symbols.number(name) for name in STEPS if symbols.maybe(name) is not None]
    frequency = fields.find("moe_layer_freq")
    every = 1 if frequency is None or isinstance(frequency[1], list) else fields.as_whole(*frequency)
    period, offset = symbols.maybe("expert_layer_period"), symbols.maybe("expert_layer_offset") or 0
    start, end = symbols.maybe("moe_layer_start_index"), _end(fields)

    def rule(layer: int) -> bool:
        if layer < dense or layer in exceptions or any((layer + 1) % step for step in steps):
            return False
        if (every > 1 and layer % every) or (period and (layer - offset) % period):
            return False
        return (start is None or layer >= start) and (end is None or end < 0 or layer <= end)

    return rule


def _end(fields: Fields) -> int | None:
    found = fields.find("moe_layer_end_index")
    if found is not None and not isinstance(found[1], list):  # a list is of text's and images' experts
        return fields.as_whole(*found, least=-1)
    value = fields.defaults.value("moe_layer_end_index") if found is None else None
    return value if isinstance(value, int) else None
