"""What torchao's quant_type says: the name of a function, or the class of a configuration and its fields.

A name says what activations and weights are quantized to, and not how weights are kept: four bits lie in bytes of their
own unless a layout packs them. Source: torchao 0.9 and main, quantization/quant_api.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kvplan.arch.storage import FP8_ROW, INT8_ROW, Storage, integer
from kvplan.families.quantization.names import Names
from kvplan.families.quantization.rules import Quantization

Node = Mapping[str, Any]

LAYOUTS = ("marlinqqq", "cutlass", "opaque")
"""Parts of the names of layouts that kernels repack what they hold in."""
BY_MODULE = ("modulefqnto", "fqnto")
"""Configurations that hold others by the names of modules."""
DEFAULT = "_default"


def quantization(node: Node, dtype: Storage) -> Quantization:
    """The formats of a checkpoint whose quant_method is torchao; `unknown` where its quant_type is none of KINDS."""
    written = node.get("quant_type")
    config = written.get("default", written) if isinstance(written, Mapping) else written
    found = {DEFAULT: _storage(config, str(node.get("quant_type_kwargs") or ""))}
    skipped = node.get("modules_to_not_convert")
    left = list(skipped) if isinstance(skipped, list | tuple) else []
    unknown = found[DEFAULT] is None
    by_module = _by_module(config)
    if by_module is not None:
        found = {name: _storage(each) for name, each in by_module.items() if each is not None}
        left += [name for name, each in by_module.items() if each is None]
        unknown = None in found.values()
    named = tuple((Names.of((name,)), storage) for name, storage in found.items() if name != DEFAULT)
    return Quantization(
        "torchao", dtype, found.get(DEFAULT), Names.of(left), named, unknown="torchao" if unknown else None
    )


def _by_module(config: object) -> Mapping[str, object] | None:
    """Configurations by the names of modules; None where one holds for all of them."""
    if not isinstance(config, Mapping) or _plain(config.get("_type")) not in BY_MODULE:
        return None
    data = config.get("_data")
    inner = data.values() if isinstance(data, Mapping) else ()
    return next((each for each in inner if isinstance(each, Mapping) and each), {})


def _storage(config: object, more: str = "") -> Storage | None:
    """The format of one configuration; None where it isn't known. more: what is written of it elsewhere."""
    kind = config.get("_type") if isinstance(config, Mapping) else config
    said = f"{config} {more}".lower()
    found = KINDS.get(_plain(kind))
    return None if found is None else found(said, _group(said))


def _plain(name: object) -> str:
    """A function's name, or a class's: Int4WeightOnlyConfig(group_size=64) is int4_weight_only."""
    return str(name or "").partition("(")[0].replace("_", "").lower().removesuffix("config")


def _group(said: str) -> int | None:
    """Inputs that share a scale, as they are written; None where they aren't, or are null."""
    found = re.search(r"group_size['\"]?\s*[:=]\s*(-?\d+)", said)
    return int(found[1]) if found else None


def _four_bits(said: str, group: int | None) -> Storage:
    del said
    return integer(4, group or 128, zero_bits=16, source=SOURCE)


def _in_bytes(default: int, zero_bits: int) -> Callable[[str, int | None], Storage | None]:
    """Few bits in a byte each. default: inputs that share a scale. zero_bits: of their zero point."""

    def found(said: str, group: int | None) -> Storage | None:
        if any(layout in said for layout in LAYOUTS):
            return None
        return integer(8, group or (-1 if "peraxis" in said else default), zero_bits=zero_bits, source=SOURCE)

    return found


def _rows(storage: Storage) -> Callable[[str, int | None], Storage | None]:
    """A scale for each row; what is kept of groups isn't known."""
    return lambda _, group: None if group is not None and group > 0 else storage


SOURCE = "torchao: what its tensors hold"

KINDS: Mapping[str, Callable[[str, int | None], Storage | None]] = {
    "int4weightonly": _four_bits,
    "float8dynamicactivationint4weight": _four_bits,
    "int8dynamicactivationint4weight": _in_bytes(32, 32),
    "int8dynamicactivationintxweight": _in_bytes(32, 8),
    "intxweightonly": _in_bytes(-1, 8),
    "int8weightonly": _rows(INT8_ROW),
    "int8dynamicactivationint8weight": _rows(INT8_ROW),
    "int8staticactivationint8weight": _rows(INT8_ROW),
    "float8weightonly": _rows(FP8_ROW),
    "float8dynamicactivationfloat8weight": _rows(FP8_ROW),
    "float8staticactivationfloat8weight": _rows(FP8_ROW),
}
"""By what functions and classes are called: the format, from what is written of one and its group."""
