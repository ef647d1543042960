"""How a checkpoint stores its weights: quantization_config and its relatives, as rules from module names to formats.

Every method answers the same three questions: in which format a linear layer is kept, which modules are exceptions, and
whether embeddings and the head are included. Sources stand beside each method; vLLM 0.33 is the reference for names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase, translate
from typing import Any

from kvplan.arch.storage import (
    AWQ_SOURCE,
    BF16,
    BNB_SOURCE,
    CHANNEL_SOURCE,
    DTYPES,
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
    Storage,
    integer,
)
from kvplan.arch.weights import TOWERS, Component, Weight
from kvplan.errors import BadField
from kvplan.families import numbers
from kvplan.families.fields import Fields

Node = Mapping[str, Any]
Companions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Names:
    """A list of module names as checkpoints write them: literal, with `*`, or `re:` and a regular expression.

    A literal names a module, everything inside it, or a step of the path that occurs anywhere. Entries that name one
    layer are kept by its number, so that layers with the same exceptions are told apart once.
    """

    literal: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    layered: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, entries: Iterable[object]) -> Names:
        """From the entries of a config; what can't be a regular expression is ignored."""
        literal: set[str] = set()
        patterns: list[re.Pattern[str]] = []
        layered: dict[int, list[str]] = {}
        for entry in entries:
            if not isinstance(entry, str):
                continue
            try:
                if entry.startswith("re:"):
                    patterns.append(re.compile(entry[3:]))
                    continue
                name = bare(entry)
                one = _ONE_LAYER.fullmatch(name)
                if one is not None:
                    layered.setdefault(int(one[1]), []).append(one[2])
                elif "*" in name:
                    patterns.append(re.compile(translate(name)))
                else:
                    literal.add(name)
            except re.error:
                continue
        return cls(frozenset(literal), tuple(patterns), {layer: tuple(names) for layer, names in layered.items()})

    def match(self, spellings: tuple[str, ...], layer: int | None) -> bool:
        """Whether any spelling of a module's name is on the list. layer: the module's, None outside the layers."""
        own = self.layered.get(layer, ()) if layer is not None else ()
        start = "" if layer is None else f"layers.{layer}."
        for name in spellings:
            if self.literal and any(part in self.literal for part in _paths(name)):
                return True
            if any(_inside(name, entry) for entry in own):
                return True
            full = start + name
            if any(pattern.match(full) or pattern.match(f"model.{full}") for pattern in self.patterns):
                return True
        return False

    def of_layer(self, layer: int) -> object:
        """What sets a layer apart on this list; equal for layers that it treats alike."""
        numbered = any(re.search(r"\d", pattern.pattern) for pattern in self.patterns)
        return self.layered.get(layer, ()), layer if numbered else None


def _inside(name: str, entry: str) -> bool:
    """Whether a module within a layer is what the entry names, or stands inside it."""
    if "*" in entry:
        return fnmatchcase(name, entry)
    return not entry or name == entry or name.startswith(f"{entry}.")


_ONE_LAYER = re.compile(r"layers\.(\d+)(?:\.(.*)|)")
_PREFIX = re.compile(r"^(?:(?:model|language_model|text_model|backbone|transformer|llm|decoder)\.)+(?=.)")


def bare(name: str) -> str:
    """A module's name without the wrappers it stands in: `model.language_model.layers.3.mlp` is `layers.3.mlp`."""
    return _PREFIX.sub("", name)


def _paths(name: str) -> list[str]:
    """Every run of steps of a dotted name."""
    steps = name.split(".")
    return [".".join(steps[i:j]) for i in range(len(steps)) for j in range(i + 1, len(steps) + 1)]


ALIASES: dict[str, tuple[str, ...]] = {
    "q_proj": ("qkv_proj",), "k_proj": ("qkv_proj",), "v_proj": ("qkv_proj",),
    "gate_proj": ("gate_up_proj", "w1"), "up_proj": ("gate_up_proj", "w3"), "down_proj": ("w2",),
}  # fmt: skip
"""Other names of a projection: joined with its neighbours, or by number."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """Formats of one checkpoint.

    dtype: of everything that isn't quantized. linear: of linear layers; None when the checkpoint isn't quantized.
    ignored: modules that stay in dtype. named: formats of modules that differ, first match wins. only: when there,
    components that are quantized at all. embeddings, head: whether those are. unknown: the method's name when its
    format isn't known, and the bytes are then those of dtype.
    """

    method: str
    dtype: Storage = BF16
    linear: Storage | None = None
    ignored: Names = field(default_factory=lambda: Names.of(()))
    named: tuple[tuple[Names, Storage], ...] = ()
    by_component: Mapping[Component, Storage] = field(default_factory=dict)
    only: frozenset[Component] | None = None
    embeddings: bool = False
    head: bool = False
    unknown: str | None = None

    @property
    def plain(self) -> bool:
        """Whether everything is stored in one dtype."""
        return self.linear is None and not self.named and not self.by_component

    def of_layer(self, layer: int) -> object:
        """What sets a layer apart; equal for layers that are stored alike."""
        return self.ignored.of_layer(layer), tuple(names.of_layer(layer) for names, _ in self.named)

    def stored(self, weight: Weight, spellings: tuple[str, ...], layer: int | None = None) -> Storage:
        """Format of one tensor, whose module has these names within its layer."""
        if not weight.linear or weight.component in TOWERS or weight.name.endswith(".bias"):
            return self.dtype
        if self.only is not None and weight.component not in self.only:
            return self.dtype
        for names, storage in self.named:
            if names.match(spellings, layer):
                return storage
        if self.ignored.match(spellings, layer) or not self._covers(weight.component):
            return self.dtype
        return self.by_component.get(weight.component, self.linear or self.dtype)

    def _covers(self, component: Component) -> bool:
        if component == "embedding":
            return self.embeddings
        if component == "head":
            return self.head
        return component not in ("router", "norm")


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


def _gptq(node: Node, dtype: Storage) -> Quantization:
    bits, group = _bits(node, "bits", "w_bit"), _group(node, "group_size", "q_group_size", default=-1)
    order = 32 if node.get("desc_act") else 0
    storage = integer(bits, group, zero_bits=bits, column_bits=order)
    dynamic = node.get("dynamic")
    skipped, named = [], []
    for pattern, change in dynamic.items() if isinstance(dynamic, Mapping) else ():
        expression = f"re:{pattern[2:]}" if pattern[:2] in ("-:", "+:") else f"re:{pattern}"
        if pattern.startswith("-:"):
            skipped.append(expression)
        elif isinstance(change, Mapping):
            own = _bits(change, "bits", default=bits)
            named.append(
                (
                    Names.of((expression,)),
                    integer(own, _group(change, "group_size", default=group), zero_bits=own, column_bits=order),
                )
            )
    ignored = Names.of([*_list(node, "modules_to_not_convert"), *skipped])
    return Quantization("gptq", dtype, storage, ignored, tuple(named), head=bool(node.get("lm_head")))


def _awq(node: Node, dtype: Storage) -> Quantization:
    bits, group = _bits(node, "bits", "w_bit"), _group(node, "group_size", "q_group_size", default=128)
    storage = integer(bits, group, zero_bits=bits, source=AWQ_SOURCE)
    return Quantization("awq", dtype, storage, Names.of(_list(node, "modules_to_not_convert")))


def _autoround(node: Node, dtype: Storage) -> Quantization:
    packing = str(node.get("packing_format", ""))
    base = _awq(node, dtype) if "awq" in packing else _gptq(node, dtype)
    extra = node.get("extra_config")
    named, skipped = [], []
    for name, change in extra.items() if isinstance(extra, Mapping) else ():
        if not isinstance(change, Mapping):
            continue
        bits = _bits(change, "bits", default=_bits(node, "bits"))
        if bits >= 16:
            skipped.append(name)
        else:
            named.append(
                (
                    Names.of((name,)),
                    integer(bits, _group(change, "group_size", default=-1), zero_bits=bits, column_bits=32),
                )
            )
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
    named, default = [], None
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
        named.append((Names.of(target for target in targets if target != "Linear"), storage))
    ignored = Names.of(_list(node, "ignore"))
    return Quantization(
        "compressed-tensors", dtype, default, ignored, tuple(pair for pair in named if pair[0] != _NOBODY)
    )


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


def _floats(weights: Node, bits: int, group: int, activations: object) -> Storage:
    if bits == 4 and group == 32:
        return MXFP4
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
            4, _group(weight, "group_size", default=128), zero_bits=0 if weight.get("symmetric") else 4, source="quark"
        )
    return None


def _mlx(node: Node, dtype: Storage) -> Quantization:
    def storage(change: Node) -> Storage:
        bits, group = _bits(change, "bits"), max(_group(change, "group_size", default=64), 1)
        if change.get("mode") in ("mxfp4", "mxfp8"):
            return MXFP4 if bits == 4 else MXFP8
        return Storage(f"int{bits} in groups of {group}", bits, group, 1, 32, source=MLX_SOURCE)

    named, skipped = [], []
    for name, change in node.items():
        if change is False:
            skipped.append(name)
        elif isinstance(change, Mapping) and "bits" in change:
            named.append((Names.of((name,)), storage(change)))
    return Quantization("mlx", dtype, storage(node), Names.of(skipped), tuple(named), embeddings=True, head=True)


def _torchao(node: Node, dtype: Storage) -> Quantization:
    kind = str(node.get("quant_type") or "").lower()
    group = re.search(r"group_size['\"]?\s*[:=]\s*(\d+)", kind)
    default: Storage | None = None
    if "int4" in kind or "uint4" in kind:
        default = integer(4, int(group[1]) if group else 128, zero_bits=16, source="torchao int4 weight only")
    elif "float8" in kind:
        default = FP8_ROW
    elif "int8" in kind:
        default = INT8_ROW
    ignored = Names.of(_list(node, "modules_to_not_convert"))
    return Quantization("torchao", dtype, default, ignored, unknown=_unless(default, "torchao"))


def _eetq(node: Node, dtype: Storage) -> Quantization:
    storage = Storage("int8 per channel", 8, row_bits=16, source="EETQ: fp16 scale per channel")
    return Quantization("eetq", dtype, storage, Names.of(_list(node, "modules_to_not_convert")))


METHODS: dict[str, Callable[[Node, Storage], Quantization]] = {
    "fp8": _fp8, "finegrained_fp8": _fp8, "fbgemm_fp8": _fbgemm, "gptq": _gptq, "gptq_marlin": _gptq, "awq": _awq,
    "awq_marlin": _awq, "auto-round": _autoround, "auto_round": _autoround, "intel/auto-round": _autoround, "inc": _autoround,
    "bitsandbytes": _bitsandbytes, "mxfp4": _mxfp4, "compressed-tensors": _compressed, "compressed_tensors": _compressed,
    "modelopt": _modelopt, "modelopt_fp4": _modelopt, "modelopt_mixed": _modelopt, "quark": _quark, "mlx": _mlx,
    "torchao": _torchao, "eetq": _eetq,
}  # fmt: skip
"""quant_method to its reader."""


def quantization(fields: Fields, companions: Companions) -> Quantization:
    """Formats of a checkpoint, from its config and the files beside it.

    companions: hf_quant_config.json (ModelOpt) and quantize_config.json (old GPTQ) count when the config has no block.
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


def _block(fields: Fields, companions: Companions) -> tuple[Node | None, str]:
    found = fields.shared("quantization_config", "quantization")
    if found is not None and isinstance(found[1], Mapping):
        return found[1], _method(found[1])
    side = companions.get("hf_quant_config.json", {}).get("quantization")
    if isinstance(side, Mapping) and side.get("quant_algo"):
        return side, "modelopt"
    old = companions.get("quantize_config.json")
    if isinstance(old, Mapping) and old.get("bits"):
        return old, str(old.get("quant_method") or "gptq")
    return None, ""


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
    if stated is None or stated[1] != "fp4" or found.method != "fp8":
        return found
    return replace(found, by_component={"experts": MXFP4})
