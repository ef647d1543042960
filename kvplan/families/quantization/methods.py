"""What each quant_method's block says: a function a method, and the table of their names.

Sources stand beside each format; vLLM 0.33 is the reference for names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kvplan.arch.storage import (
    AWQ_SOURCE,
    BNB_SOURCE,
    CHANNEL_SOURCE,
    FP8_BLOCK,
    FP8_BLOCK_SOURCE,
    FP8_ROW,
    FP8_SOURCE,
    FP8_TENSOR,
    INT8_ROW,
    MLX_SOURCE,
    MXFP4,
    MXFP8,
    NVFP4,
    NVFP4_SOURCE,
    QUARK_SOURCE,
    Storage,
    integer,
)
from kvplan.errors import BadField
from kvplan.families.quantization import torchao
from kvplan.families.quantization.names import Names
from kvplan.families.quantization.rules import Quantization

Node = Mapping[str, Any]


def _list(node: Node, *names: str) -> list[object]:
    """Entries of the first of these lists that is there."""
    for name in names:
        value = node.get(name)
        if isinstance(value, list | tuple):
            return list(value)
    return []


def _number(node: Node, *names: str) -> int | None:
    for name in names:
        value = node.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _bits(node: Node, *names: str, default: int = 4) -> int:
    """Bits of an element.

    Raises: BadField for what no format has.
    """
    bits = _number(node, *names)
    if bits is None:
        return default
    if not 1 <= bits <= 32:
        raise BadField(f"quantization_config.{names[0]}", bits, "a number of bits from 1 to 32")
    return bits


def _group(node: Node, *names: str, default: int) -> int:
    """Inputs that share a scale; -1 for a whole row.

    Raises: BadField.
    """
    size = _number(node, *names)
    if size is not None and not (size in (-1, 0) or 0 < size <= 2**20):
        raise BadField(f"quantization_config.{names[0]}", size, "a group size, or -1 for whole rows")
    return size or default


def _tile(value: object) -> tuple[int, int] | None:
    """Rows and columns of a block, None when there is no such pair.

    Raises: BadField.
    """
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in value):
        raise BadField("quantization_config.weight_block_size", value, "two positive whole numbers")
    return value[0], value[1]


def _blocks(tile: tuple[int, int], bits: int, source: str) -> Storage:
    return Storage(f"fp8 in blocks of {tile[0]} x {tile[1]}", bits, tile[1], tile[0], 32, source=source)


def _fp8(node: Node, dtype: Storage) -> Quantization:
    tile = _tile(node.get("weight_block_size"))
    static = 64 if node.get("activation_scheme") == "static" else 32
    storage = Storage("fp8 per tensor", 8, tensor_bits=static, source=FP8_SOURCE)
    if tile is not None:
        storage = _blocks(tile, 8, FP8_BLOCK_SOURCE)
    return Quantization("fp8", dtype, storage, Names.of(_list(node, "modules_to_not_convert", "ignored_layers")))


def _fbgemm(node: Node, dtype: Storage) -> Quantization:
    return Quantization("fbgemm_fp8", dtype, FP8_ROW, Names.of(_list(node, "modules_to_not_convert")))


INDEX_BITS = 32
"""Of each input's group, g_idx, which GPTQ's files have whether or not inputs were reordered. Source: AutoGPTQ's format."""


def _gptq(node: Node, dtype: Storage) -> Quantization:
    bits, group = _bits(node, "bits", "w_bit"), _group(node, "group_size", "q_group_size", default=-1)
    storage = integer(bits, group, zero_bits=bits, column_bits=INDEX_BITS)
    dynamic = node.get("dynamic")
    named: list[tuple[Names, Storage | None]] = []
    for pattern, change in dynamic.items() if isinstance(dynamic, Mapping) else ():
        expression = f"re:{pattern[2:]}" if pattern[:2] in ("-:", "+:") else f"re:{pattern}"
        if pattern.startswith("-:"):
            named.append((Names.of((expression,)), None))
        elif isinstance(change, Mapping):
            own = _bits(change, "bits", default=bits)
            named.append(
                (
                    Names.of((expression,)),
                    integer(own, _group(change, "group_size", default=group), zero_bits=own, column_bits=INDEX_BITS),
                )
            )
    ignored, head = Names.of(_list(node, "modules_to_not_convert")), bool(node.get("lm_head"))
    listed = tuple(_flat(_list(node, "modules_in_block_to_quantize")))
    if not listed:
        return Quantization("gptq", dtype, storage, ignored, tuple(named), head=head)
    rules = (*named, (Names.containing(listed), storage))
    return Quantization("gptq", dtype, None, ignored, rules, by_component={"experts": storage}, head=head)


def _flat(entries: list[object]) -> Iterator[str]:
    """Names of a list of lists, as modules_in_block_to_quantize is one.

    A module is quantized if its name contains one of them; experts are whatever the list says.
    Source: vLLM 0.33 quantization/utils/gptq_utils.py is_layer_gptq_quantized, auto_gptq.py get_moe_quant_method.
    """
    for entry in entries:
        if isinstance(entry, list):
            yield from _flat(entry)
        elif isinstance(entry, str):
            yield entry


def _awq(node: Node, dtype: Storage) -> Quantization:
    bits, group = _bits(node, "bits", "w_bit"), _group(node, "group_size", "q_group_size", default=128)
    storage = integer(bits, group, zero_bits=bits, source=AWQ_SOURCE)
    return Quantization("awq", dtype, storage, Names.containing(_list(node, "modules_to_not_convert")))


SPECIAL = frozenset("*+?^$()[]{}|\\")
"""What makes a key of AutoRound's extra_config an expression, to be found anywhere. Source: vLLM 0.33 inc/config_parser.py."""


def _autoround(node: Node, dtype: Storage) -> Quantization:
    packing = str(node.get("packing_format", ""))
    base = _awq(node, dtype) if "awq" in packing else _gptq(node, dtype)
    extra = node.get("extra_config")
    named, skipped = [], []
    for name, change in extra.items() if isinstance(extra, Mapping) else ():
        if not isinstance(change, Mapping):
            continue
        bits = _bits(change, "bits", default=_bits(node, "bits"))
        entry = f"re:.*?(?:{name})" if SPECIAL.intersection(name) else name
        if bits >= 16:
            skipped.append(entry)
        else:
            group = _group(change, "group_size", default=_group(node, "group_size", default=-1))
            named.append((Names.of((entry,)), integer(bits, group, zero_bits=bits, column_bits=INDEX_BITS)))
    ignored = Names.of([*_list(node, "modules_to_not_convert"), *skipped])
    return Quantization("auto-round", dtype, base.linear, ignored, tuple(named))


def _bitsandbytes(node: Node, dtype: Storage) -> Quantization:
    if node.get("load_in_8bit"):
        storage = Storage("int8 per channel", 8, row_bits=32, source=BNB_SOURCE)
    else:
        twice = bool(node.get("bnb_4bit_use_double_quant"))
        storage = Storage(
            f"{node.get('bnb_4bit_quant_type') or 'fp4'} in groups of 64",
            4,
            64,
            1,
            8 if twice else 32,
            source=BNB_SOURCE,
        )
    return Quantization("bitsandbytes", dtype, storage, Names.of(_list(node, "llm_int8_skip_modules")))


def _mxfp4(node: Node, dtype: Storage) -> Quantization:
    ignored = Names.of(_list(node, "modules_to_not_convert"))
    return Quantization("mxfp4", dtype, MXFP4, ignored, only=frozenset(("experts",)))


def _compressed(node: Node, dtype: Storage) -> Quantization:
    named, default, embeds = [], None, False
    groups = node.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if not isinstance(group, Mapping):
            continue
        storage = _arguments(group.get("weights"), group.get("input_activations"))
        targets = _list(group, "targets")
        if storage is None:
            continue
        if "Linear" in targets or not targets:
            default = default or storage
        embeds = embeds or "Embedding" in targets
        named.append((Names.of(target for target in targets if target != "Linear"), storage))
    ignored = Names.of(_list(node, "ignore"))
    rules = ((ignored, None), *(pair for pair in named if pair[0] != _NOBODY))
    return Quantization("compressed-tensors", dtype, default, ignored, rules, embeddings=embeds)


_NOBODY = Names.of(())


def _arguments(weights: object, activations: object) -> Storage | None:
    """Format of one config group, from its weights' arguments."""
    if not isinstance(weights, Mapping):
        return None
    bits, group = _bits(weights, "num_bits", default=8), max(_group(weights, "group_size", default=0), 0)
    if weights.get("type") == "float":
        return _floats(weights, bits, group, activations)
    if bits == 8 and not group:
        return Storage("int8 per channel", 8, row_bits=32, source=CHANNEL_SOURCE)
    zero = 0 if weights.get("symmetric", True) else bits
    order = 32 if weights.get("actorder") in ("group", True) else 0
    return integer(bits, group or -1, zero_bits=zero, column_bits=order, tensor_bits=128, source=CHANNEL_SOURCE)


MX_GROUP = 32
"""Elements that share a scale in microscaling formats."""


def _floats(weights: Node, bits: int, group: int, activations: object) -> Storage:
    if group == MX_GROUP and bits in (4, 8):
        return MXFP4 if bits == 4 else MXFP8
    if bits == 4:
        scales = 64 if isinstance(activations, Mapping) else 32
        return Storage("nvfp4", 4, group or 16, 1, 8, tensor_bits=scales, source=NVFP4_SOURCE)
    tile = _tile(weights.get("block_structure"))
    if tile is not None:
        return _blocks(tile, bits, CHANNEL_SOURCE)
    static = 32 if isinstance(activations, Mapping) and not activations.get("dynamic") else 0
    if weights.get("strategy") == "channel":
        return Storage("fp8 per channel", bits, row_bits=32, tensor_bits=static, source=CHANNEL_SOURCE)
    return Storage("fp8 per tensor", bits, tensor_bits=32 + static, source=CHANNEL_SOURCE)


def _modelopt(node: Node, dtype: Storage) -> Quantization:
    ignored = Names.of(_list(node, "ignore", "exclude_modules"))
    algorithm = str(node.get("quant_algo") or "").upper()
    named = _quantized_layers(node)
    if node.get("quant_method") == "fp8" and named:  # an fp8 checkpoint whose experts were quantized once more
        return replace(_fp8(node, dtype), named=named)
    default = None if algorithm == "MIXED_PRECISION" else _algorithm(algorithm, node)
    unknown = _unless(default or named, f"modelopt {algorithm}")
    return Quantization("modelopt", dtype, default, ignored, named, unknown=unknown)


def _quantized_layers(node: Node) -> tuple[tuple[Names, Storage], ...]:
    layers = node.get("quantized_layers")
    by_format: dict[Storage, list[str]] = {}
    for name, change in layers.items() if isinstance(layers, Mapping) else ():
        storage = _algorithm(str(change.get("quant_algo", "")), change) if isinstance(change, Mapping) else None
        if storage is not None:
            by_format.setdefault(storage, []).append(name)
    return tuple((Names.of(names), storage) for storage, names in by_format.items())


def _unless(found: object, name: str) -> str | None:
    return None if found else name


_ALGORITHMS: dict[str, Storage] = {
    "FP8": FP8_TENSOR, "FP8_PER_CHANNEL_PER_TOKEN": FP8_ROW, "FP8_PB_WO": FP8_BLOCK, "NVFP4": NVFP4, "W4A16_NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4, "MXFP8": MXFP8, "MXFP4": MXFP4, "W4A8_MXFP4_FP8": MXFP4, "INT8_SQ": INT8_ROW,
}  # fmt: skip


def _algorithm(name: str, node: Node) -> Storage | None:
    found = _ALGORITHMS.get(name.upper())
    if found is None and name.upper().startswith(("W4A16", "W4A8")):
        return integer(4, _group(node, "group_size", default=128), zero_bits=0, source="ModelOpt AWQ export")
    return found


def _quark(node: Node, dtype: Storage) -> Quantization:
    spec = node.get("global_quant_config")
    named = []
    layers = node.get("layer_quant_config")
    for name, change in layers.items() if isinstance(layers, Mapping) else ():
        storage = _quark_weight(change)
        if storage is not None:
            named.append((Names.of((name,)), storage))
    default = _quark_weight(spec)
    return Quantization(
        "quark", dtype, default, Names.of(_list(node, "exclude")), tuple(named), unknown=_unless(default, "quark")
    )


def _quark_weight(spec: object) -> Storage | None:
    weight = spec.get("weight") if isinstance(spec, Mapping) else None
    if isinstance(weight, list):
        weight = weight[0] if weight else None
    if not isinstance(weight, Mapping):
        return None
    kind, scheme = str(weight.get("dtype", "")), weight.get("qscheme")
    if kind.startswith("fp4"):
        return MXFP4
    if kind.startswith(("fp8", "int8")):
        return FP8_ROW if scheme == "per_channel" else FP8_TENSOR
    if kind.startswith(("int4", "uint4")):
        return integer(
            4,
            _group(weight, "group_size", default=128),
            zero_bits=0 if weight.get("symmetric") else 4,
            source=QUARK_SOURCE,
        )
    return None


def _mlx(node: Node, dtype: Storage) -> Quantization:
    def storage(change: Node) -> Storage:
        bits, group = _bits(change, "bits"), max(_group(change, "group_size", default=64), 1)
        if change.get("mode") in ("mxfp4", "mxfp8"):
            return MXFP4 if bits == 4 else MXFP8
        return Storage(f"int{bits} in groups of {group}", bits, group, 1, 32, source=MLX_SOURCE)

    named, skipped = [], []
    for key, change in node.items():
        name = key.replace("switch_mlp.", "experts.")  # what MLX calls all experts in one tensor
        if change is False:
            skipped.append(name)
        elif isinstance(change, Mapping) and "bits" in change:
            named.append((Names.of((name,)), storage(change)))
    return Quantization("mlx", dtype, storage(node), Names.of(skipped), tuple(named), embeddings=True, head=True)


def _eetq(node: Node, dtype: Storage) -> Quantization:
    storage = Storage("int8 per channel", 8, row_bits=16, source="EETQ: fp16 scale per channel")
    return Quantization("eetq", dtype, storage, Names.of(_list(node, "modules_to_not_convert")))


METHODS: dict[str, Callable[[Node, Storage], Quantization]] = {
    "fp8": _fp8, "finegrained_fp8": _fp8, "fbgemm_fp8": _fbgemm, "gptq": _gptq, "gptq_marlin": _gptq, "awq": _awq,
    "awq_marlin": _awq, "auto-round": _autoround, "auto_round": _autoround, "intel/auto-round": _autoround, "inc": _autoround,
    "bitsandbytes": _bitsandbytes, "mxfp4": _mxfp4, "compressed-tensors": _compressed, "compressed_tensors": _compressed,
    "modelopt": _modelopt, "modelopt_fp4": _modelopt, "modelopt_mixed": _modelopt, "quark": _quark, "mlx": _mlx,
    "torchao": torchao.quantization, "eetq": _eetq,
}  # fmt: skip
"""quant_method to its reader."""
