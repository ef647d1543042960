"""Types of what stands in a quantization block. An entry of another type would count as absent, and so as another format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.errors import BadField
from kvplan.families import typed

Node = Mapping[str, Any]
Check = Callable[[str, object], object]


def _integer(path: str, value: object) -> None:
    """A whole number, of any sign, without a decimal point: engines divide by it, and index with what comes out.

    Raises: BadField.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        plain = str(value).removesuffix(".0")
        hint = f"write {plain}" if isinstance(value, str | float) and plain.removeprefix("-").isdecimal() else None
        raise BadField(path, value, "a whole number", hint=hint)


def _group(path: str, value: object) -> None:
    """Inputs that share a scale; -1 for all of a row."""
    _integer(path, value)
    if isinstance(value, int) and value < 1 and value != WHOLE_ROW:
        raise BadField(path, value, f"a positive whole number, or {WHOLE_ROW} for whole rows")


WHOLE_ROW = -1


def _words(path: str, value: object) -> None:
    for index, word in enumerate(typed.items(path, value)):
        typed.text(f"{path}[{index}]", word)


def _pair(path: str, value: object) -> None:
    sizes = typed.items(path, value)
    if len(sizes) != 2 or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise BadField(path, value, "two positive whole numbers")


def _word_or_switch(path: str, value: object) -> None:
    if not isinstance(value, str):
        typed.switch(path, value)


def _switch_or_table(path: str, value: object) -> None:
    if not isinstance(value, bool):
        typed.table(path, value)


def _word_or_table(path: str, value: object) -> None:
    if not isinstance(value, str):
        typed.table(path, value)


def _tables(path: str, value: object) -> None:
    """Objects by the names of modules or groups, each with entries of its own."""
    for name, entry in typed.table(path, value).items():
        if entry is not None:
            _refuse(typed.table(f"{path}.{name}", entry), f"{path}.{name}.", _CHECKS)


def _table(path: str, value: object) -> None:
    _refuse(typed.table(path, value), f"{path}.", _CHECKS)


def _one_or_more(path: str, value: object) -> None:
    """Quark's specification of a weight, or several for formats within formats."""
    for entry in value if isinstance(value, list) else (value,):
        _table(path, entry)


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("bits", "w_bit", "num_bits"), _integer),
    **dict.fromkeys(("group_size", "q_group_size"), _group),
    **dict.fromkeys(
        ("lm_head", "sym", "desc_act", "symmetric", "load_in_8bit", "load_in_4bit", "bnb_4bit_use_double_quant"), typed.switch
    ),
    **dict.fromkeys(
        (
            "modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude", "targets", "llm_int8_skip_modules",
        ),
        _words,
    ),
    "modules_in_block_to_quantize": typed.items,
    **dict.fromkeys(
        (
            "quant_method", "quant_algo", "kv_cache_quant_algo", "activation_scheme", "packing_format", "type", "strategy", "dtype",
            "qscheme", "mode", "bnb_4bit_quant_type",
        ),
        typed.text,
    ),
    **dict.fromkeys(("weights", "input_activations", "global_quant_config"), _table),
    **dict.fromkeys(("config_groups", "quantized_layers", "layer_quant_config", "extra_config"), _tables),
    "weight": _one_or_more,
    "weight_block_size": _pair,
    "actorder": _word_or_switch,
    "kv_cache_scheme": _word_or_table,
}  # fmt: skip
"""By an entry's name, at any depth. Source of the names: kvplan/families/quantization/methods.py, which reads them."""

_OF_METHOD: dict[str, Mapping[str, Check]] = {
    **{
        method: {"dynamic": _tables}
        for method in ("gptq", "gptq_marlin", "auto-round", "auto_round", "intel/auto-round", "inc")
    },
    "mlx": {"lm_head": _switch_or_table},
}
"""Entries that are something else under one method. MLX names modules beside the block's own entries."""


def refuse_others(node: Node, path: str, method: str) -> None:
    """Refuse entries of other types than engines take.

    path: the block's, with a dot behind it.

    Raises: BadField.
    """
    _refuse(node, path, {**_CHECKS, **_OF_METHOD.get(method, {})})


def _refuse(node: Node, path: str, checks: Mapping[str, Check]) -> None:
    for name, value in node.items():
        if value is not None and name in checks:
            checks[name](path + name, value)
