"""Which quantized checkpoints a release loads: by method, by scheme, by the keys that it reads.

Source: layers/quantization/{__init__,gptq,auto_gptq,awq_marlin,auto_awq,modelopt}.py, inc/schemes/inc_wna16_linear.py and
compressed_tensors/compressed_tensors.py of the releases named in each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvplan.arch.model import Model
from kvplan.arch.quantized import Quantized, Scheme
from kvplan.engines.vllm.layout.packed import MARLIN_GROUPS
from kvplan.engines.vllm.tables.flags import QUANTIZATIONS
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import OLDEST, Version, text
from kvplan.errors import NotServed, Unsupported

AS = {
    "auto-round": ("auto-round", "inc"),
    "finegrained_fp8": ("fp8",),
    "gptq_marlin": ("gptq",),
    "awq_marlin": ("awq",),
}
"""Methods that go by other names too."""

DEPRECATED: dict[str, Version] = {"fbgemm_fp8": (0, 14, 0), "fp_quant": (0, 14, 0), "ptpc_fp8": (0, 14, 0)}
"""Methods that need --allow-deprecated-quantization, and since when."""

KEYS: dict[str, tuple[tuple[Version, tuple[str, ...]], ...]] = {
    "awq": tuple((OLDEST, names) for names in (("w_bit", "bits"), ("q_group_size", "group_size"), ("zero_point",))),
    "fp8": ((OLDEST, ("activation_scheme",)),),
    "gptq": (*((OLDEST, (name,)) for name in ("bits", "group_size", "desc_act")), ((0, 22, 0), ("sym",))),
}
"""Keys that a block must have, any of each row, and since when."""

ALGORITHMS: dict[str, Version] = {
    "FP8": (0, 6, 1), "NVFP4": (0, 8, 0), "FP8_PER_CHANNEL_PER_TOKEN": (0, 14, 0), "FP8_PB_WO": (0, 14, 0), "MXFP8": (0, 16, 0),
    "MIXED_PRECISION": (0, 17, 0), "W4A16_NVFP4": (0, 21, 0),
}  # fmt: skip
"""ModelOpt's quant_algo, and since when."""

BESIDE = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "MIXED_PRECISION")
"""Those that may stand in hf_quant_config.json. Source: transformers_utils/model_arch_config_convertor.py."""

ACTIVATIONS = ("static", "dynamic")
"""Values of activation_scheme. Source: layers/quantization/fp8.py of every release."""

MARLIN = (-1, *MARLIN_GROUPS)
"""Groups that Marlin has, as blocks state them: -1 for whole rows."""


@dataclass(frozen=True, slots=True)
class Limit:
    """From `since` on, a method loads the schemes that `takes` takes, and says `says` of others."""

    method: str
    since: Version
    takes: Callable[[Scheme, Quantized], bool]
    says: str


LIMITS = (
    Limit("gptq", (0, 22, 0), lambda scheme, _: scheme.bits in (4, 8) and scheme.symmetric is not False,
          "Unsupported quantization config: bits={bits}, sym={symmetric}"),
    Limit("gptq", (0, 22, 0), lambda scheme, _: scheme.group in MARLIN,
          f"Marlin does not support group_size = {{group}}. Only group_sizes = {list(MARLIN)} are supported."),
    Limit("gptq", OLDEST, lambda scheme, _: scheme.bits in (2, 3, 4, 8),
          "Currently, only 2/3/4/8-bit weight quantization is supported for GPTQ, but got {bits} bits."),
    Limit("awq", (0, 12, 0), lambda scheme, _: scheme.bits == 4, "Unsupported num_bits = {bits}. Supported: 4."),
    Limit("awq", OLDEST, lambda scheme, _: scheme.bits in (4, 8), "Unsupported num_bits = {bits}."),
    Limit("compressed-tensors", (0, 30, 0), lambda scheme, _: scheme.order not in ("group", "dynamic"),
          "Compressed-tensors group/dynamic activation ordering (actorder='{order}') is no longer supported."),
    Limit("compressed-tensors", OLDEST, lambda scheme, _: scheme.bits in (4, 8) and (scheme.group == -1 or scheme.group >= 32),
          "Failed to find a kernel that can implement the WNA16 linear layer: {bits} bits in groups of {group}"),
    Limit("auto-round", (0, 24, 0), lambda scheme, block: scheme.bits not in (4, 8) or "awq" in block.packing or (
          scheme.symmetric is not False and scheme.group in MARLIN),
          "INC quantization with bits={bits}, sym={symmetric} is not supported. Only 4-bit and 8-bit symmetric quantization is "
          "supported with Marlin kernels (groups of {group})."),
)  # fmt: skip
"""What each method takes, the newest rules first."""


def check(model: Model, rules: Rules) -> None:
    """Refuse a checkpoint that this release can't load, in its own words.

    One whose method only its keys tell is refused where its weights are counted: its cache is planned as any other.

    Raises: Unsupported.
    """
    block = model.quantized
    if block is None or model.what_if is not None:
        return
    if block.unnamed and block.method:
        raise unseen(model, f'add "quant_method": "{block.method}" to it')
    if block.method == "compressed-tensors" and model.kv_hint is not None and model.kv_hint.k.name == "int8":
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
            cause="Currently supported kv cache quantization is num_bits=8, type=float, however received num_bits=8, type=int",
            hint="a checkpoint without a scheme for its cache, or with one of float",
        )
    for cause in _refusals(block, rules.version):
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
            cause=cause,
            hint="the checkpoint that it was made from, or one in fp8 or another format (--weight-dtype fp8 asks what if)",
        )


def unseen(model: Model, *hints: str) -> Unsupported:
    """That the quantization of a checkpoint isn't seen, which would be loaded as what it isn't."""
    return Unsupported(
        f"vLLM doesn't see that {model.origin.id} is quantized",
        cause="its quantization_config names no quant_method, so its matrices are built in 16 bit",
        hint=", or ".join((*hints, "ask for the formula: --engine ideal")),
    )


def deprecated(model: Model, version: Version) -> bool:
    """Whether the checkpoint loads only with --allow-deprecated-quantization."""
    block = model.quantized
    if block is None or model.what_if is not None:
        return False
    return version >= DEPRECATED.get(block.method, (version[0] + 1, 0, 0))


CACHES = ("compressed-tensors", "modelopt")
"""Beginnings of the methods whose blocks decide the cache's format. Source: utils/torch_utils.py, layers/attention.py."""

CACHE_FORMATS = ("fp8", "nvfp4")


def caches(model: Model) -> bool:
    """Whether `auto` means the cache format that the checkpoint states."""
    hint, block = model.kv_hint, model.quantized
    return hint is not None and hint.k.name in CACHE_FORMATS and (block is None or block.method.startswith(CACHES))


def _refusals(block: Quantized, version: Version) -> Iterator[str]:
    """What the release says against a block: of its method and keys, of ModelOpt's algorithm, of each scheme."""
    method = block.method
    names = AS.get(method, (method,))
    if method and not any(holds(QUANTIZATIONS[name], version) for name in names if name in QUANTIZATIONS):
        yield f"Unknown quantization method: {method}"
    for since, keys in KEYS.get(method, ()):
        if version >= since and not set(keys) & set(block.keys):
            yield f"Cannot find any of {list(keys)} in the model's quantization config."
    if block.activations not in ("", *ACTIVATIONS):
        yield f"Unsupported activation scheme {block.activations}"
    if method == "modelopt":
        yield from _of_modelopt(block, version)
    yield from _of_schemes(block, version)


def _of_modelopt(block: Quantized, version: Version) -> Iterator[str]:
    if block.algorithm and version < ALGORITHMS.get(block.algorithm, (version[0] + 1, 0, 0)):
        known = [name for name, since in ALGORITHMS.items() if version >= since]
        yield f"ModelOpt currently only supports: {known} quantizations in vLLM, and not {block.algorithm}"
    if "quant_method" not in block.keys and block.algorithm not in BESIDE:
        yield f"Unknown ModelOpt quant algo: {block.algorithm}"


def _of_schemes(block: Quantized, version: Version) -> Iterator[str]:
    for limit in LIMITS:
        if limit.method == block.method and version >= limit.since:
            for scheme in block.schemes:
                if not limit.takes(scheme, block):
                    yield limit.says.format(
                        bits=scheme.bits, symmetric=scheme.symmetric, group=scheme.group, order=scheme.order
                    )
