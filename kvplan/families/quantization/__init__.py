"""How a checkpoint stores its weights: quantization_config and its relatives, as rules from module names to formats.

Every method answers the same three questions: in which format a linear layer is kept, which modules are exceptions, and
whether embeddings and the head are included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan.arch.quantized import Quantized
from kvplan.arch.storage import DTYPES, MXFP4
from kvplan.families import numbers, typed
from kvplan.families.fields import Fields
from kvplan.families.quantization.entries import refuse_others
from kvplan.families.quantization.methods import METHODS, Node
from kvplan.families.quantization.rules import Quantization
from kvplan.families.quantization.stated import stated
from kvplan.families.spellings import BLOCKS

Companions = Mapping[str, Mapping[str, Any]]


def quantization(fields: Fields, companions: Companions) -> Quantization:
    """Formats of a checkpoint, from its config and the files beside it.

    companions: hf_quant_config.json (ModelOpt), quantize_config.json (old GPTQ) and quant_config.json (old AWQ) count when
    the config has no block.
    A method nobody knows is reported in `unknown`, not guessed.

    Raises: BadField, Unsupported for an unreadable dtype.
    """
    dtype = DTYPES[numbers.dtype(fields).name]
    node, method = _block(fields, companions)
    if node is None:
        return Quantization(dtype.name, dtype)
    reader = METHODS.get(method)
    if reader is None:
        return Quantization(method, dtype, unknown=method)
    return _experts(fields, reader(node, dtype))


def says_quantization(config: Mapping[str, object]) -> bool:
    """Whether the config itself says how its weights are quantized, at its top or in a nested text config."""
    nested = [value for value in config.values() if isinstance(value, Mapping)]
    return any(level.get(name) for level in (config, *nested) for name in BLOCKS)


def quantized(fields: Fields, companions: Companions) -> Quantized | None:
    """What the checkpoint's block states, as it is written; None where there is none."""
    node, method = _block(fields, companions)
    if node is None:
        return None
    own = fields.shared(*BLOCKS)
    return stated(node, method, unnamed=own is not None and own[1] is node and not node.get("quant_method"))


def _block(fields: Fields, companions: Companions) -> tuple[Node | None, str]:
    """The block that counts, and its method.

    Raises: BadField for entries of other types than a known method takes.
    """
    path, node, method = _found(fields, companions)
    if node is not None and node.get("quant_method") is not None:
        typed.text(f"{path}quant_method", node["quant_method"])
    if node is not None and method in METHODS:
        refuse_others(node, path, method)
    return node, method


def _found(fields: Fields, companions: Companions) -> tuple[str, Node | None, str]:
    """Where a block stands, itself, and its method."""
    found = fields.shared_table(*BLOCKS)
    if found is not None:
        return f"{found[0]}.", found[1], _method(found[1])
    side = companions.get("hf_quant_config.json", {}).get("quantization")
    if isinstance(side, Mapping) and side.get("quant_algo"):
        return "hf_quant_config.json: quantization.", side, "modelopt"
    old = companions.get("quantize_config.json")
    if isinstance(old, Mapping) and old.get("bits"):
        return "quantize_config.json: ", old, str(old.get("quant_method") or "gptq")
    awq = companions.get("quant_config.json")
    if isinstance(awq, Mapping) and awq.get("w_bit"):
        return "quant_config.json: ", awq, str(awq.get("quant_method") or "awq")
    return "", None, ""


def _method(node: Node) -> str:
    """quant_method, or what the keys say when it is missing."""
    stated = str(node.get("quant_method") or "").lower()
    if node.get("quantized_layers") or (node.get("quant_algo") and stated in ("", "fp8")):
        return "modelopt"
    if stated:
        return stated
    if node.get("config_groups"):
        return "compressed-tensors"
    if node.get("bits") and node.get("group_size"):
        return "mlx"
    return "fp8" if node.get("weight_block_size") else "unknown"


def _experts(fields: Fields, found: Quantization) -> Quantization:
    """deepseek_v4 says outside the block that its experts are 4 bit: mxfp4, two elements a byte, one scale per 32."""
    stated = fields.shared("expert_dtype")
    if stated is None or typed.text(*stated) != "fp4" or found.method != "fp8":
        return found
    return replace(found, by_component={"experts": MXFP4})
