"""The number format a checkpoint runs in, and the cache format it carries scales for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.arch.formats import FORMATS, Format, KvFormat, find_format
from kvplan.errors import BadField, Unsupported
from kvplan.families.fields import Fields
from kvplan.families.spellings import SERVED_BLOCKS

SIXTEEN_BIT = {"bf16", "fp16"}
DTYPES = ("dtype", "torch_dtype", "model_dtype")
_ENGINES = "vLLM, SGLang and TensorRT-LLM run it in 16 bit when the config says otherwise or nothing"


def dtype(fields: Fields) -> Format:
    """Format of activations, and of the cache unless something else is asked for: bf16 or fp16.

    A config that says float32, an 8-bit format or nothing runs in bf16 on every serving engine; the ledger
    says so: a default where nothing is stated, a note where something is.

    Raises: BadField, Unsupported.
    """
    _refuse_auto(fields)
    found = fields.shared(*DTYPES)
    if found is None:
        fields.note_default("dtype", "bf16", _ENGINES)
        return FORMATS["bf16"]
    name, value = found
    if not isinstance(value, str):
        raise BadField(fields.path + name, value, "a dtype such as bfloat16")
    known = find_format(value)
    if known is not None and known.name not in SIXTEEN_BIT:
        fields.note(f"The config's {name} is {value}, and bf16 is planned: {_ENGINES}.")
        return FORMATS["bf16"]
    if known is None:
        raise Unsupported(
            f"{fields.path}{name} {value!r} is not a known number format", hint="bfloat16, float16 or float32"
        )
    return known


def is_wide(fields: Fields) -> bool:
    """Whether the checkpoint is in 32 bit: stated, or by nothing said, also of the images' part of it.

    Source: vLLM 0.8.5 config.py _get_and_verify_dtype, which looks into vision_config last.
    """
    images = (fields.node, *fields.parents)[-1].get("vision_config")
    beside = [images[name] for name in DTYPES if images.get(name)] if isinstance(images, Mapping) else []
    found = fields.shared(*DTYPES)
    said = found[1] if found is not None else next(iter(beside), "float32")
    return find_format(str(said)) == FORMATS["fp32"]


def _refuse_auto(fields: Fields) -> None:
    """A config's "auto", at any depth, is looked for as torch.auto by the Transformers library, and so by engines.

    Raises: BadField.
    """
    for node in (fields.node, *fields.parents):
        name = next((name for name in ("dtype", "torch_dtype") if node.get(name) == "auto"), None)
        if name is not None:
            raise BadField(
                name, "auto", "a dtype such as bfloat16",
                cause="that is a word for a command line: in a config it is looked for as torch.auto, which there isn't",
            )  # fmt: skip


def kv_hint(fields: Fields, companions: Mapping[str, Mapping[str, Any]]) -> KvFormat | None:
    """The cache format that the checkpoint carries scales for: kv_cache_scheme, or ModelOpt's kv_cache_quant_algo.

    None for the model's own format. Quantized weights alone say nothing about the cache.

    Raises: Unsupported for a scheme kvplan can't price.
    """
    found = fields.shared(*SERVED_BLOCKS)
    scheme = found[1].get("kv_cache_scheme") if found is not None and isinstance(found[1], Mapping) else None
    if isinstance(scheme, Mapping):
        return None if _is_dynamic_modelopt(found, scheme) else _by_bits(scheme)
    algorithm = _modelopt_algorithm(found[1] if found else None, companions)
    if algorithm is None:
        return None
    format_ = _ALGORITHMS.get(algorithm.upper())
    if format_ is None:
        raise Unsupported(
            f"kv_cache_quant_algo {algorithm!r} is not a known cache format",
            hint="state the cache format yourself with --kv-dtype",
        )
    return KvFormat(FORMATS[format_], FORMATS[format_])


def _is_dynamic_modelopt(found: tuple[str, Any] | None, scheme: Mapping[str, Any]) -> bool:
    """ModelOpt's fp8 scheme counts where it says that scales aren't dynamic. Source: vLLM 0.33 utils/torch_utils.py."""
    method = str(found[1].get("quant_method") or "") if found is not None else ""
    return method.startswith("modelopt") and scheme.get("num_bits") == 8 and scheme.get("dynamic") is not False


_ALGORITHMS = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}


def _modelopt_algorithm(config: object, companions: Mapping[str, Mapping[str, Any]]) -> str | None:
    side = companions.get("hf_quant_config.json", {}).get("quantization")
    for node in (config, side):
        if isinstance(node, Mapping) and isinstance(node.get("kv_cache_quant_algo"), str):
            stated: str = node["kv_cache_quant_algo"]
            return stated
    return None


_SCHEMES = {"float8": "fp8", "int8": "int8", "float4": "nvfp4"}


def _by_bits(scheme: Mapping[str, Any]) -> KvFormat | None:
    bits, kind = scheme.get("num_bits"), scheme.get("type")
    name = _SCHEMES.get(f"{kind}{bits}")
    if name is None:
        raise Unsupported(
            f"kv_cache_scheme with {bits} bits of type {kind!r} is not a known cache format",
            hint="state the cache format yourself with --kv-dtype",
        )
    return KvFormat(FORMATS[name], FORMATS[name])
