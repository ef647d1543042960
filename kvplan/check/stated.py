"""Flags that say of a checkpoint what its config says otherwise, so that vLLM doesn't start."""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.check.budget import Question

HALF = ("half", "float16")


def contradicted(model: Model, question: Question) -> str | None:
    """Why vLLM refuses --quantization or --dtype beside this config; None where it doesn't, or where neither was given.

    Source: vLLM 0.33 config/model.py _verify_quantization, _FLOAT16_NOT_SUPPORTED_MODELS; model_loader/weight_utils.py
    get_quant_config; layers/quantization/mxfp4.py.
    """
    return _method(model, question.quantization) or _dtype(model, question.dtype)


def _method(model: Model, asked: str | None) -> str | None:
    if asked is None:
        return None
    own = "" if model.quantized is None else model.quantized.method
    if not own:
        return f"--quantization {asked}, but the config names no method (vLLM: Cannot find the config file for {asked})"
    if _kin(own) != _kin(asked):
        return f"--quantization {asked}, but the config says {own} (vLLM: Quantization method ... does not match)"
    return None


def _kin(method: str) -> str:
    """Methods that load each other's checkpoints, by one name."""
    return "modelopt" if method.startswith("modelopt") else method.removesuffix("_marlin")


def _dtype(model: Model, asked: str | None) -> str | None:
    from kvplan.engines.vllm.tables.architectures import NO_FLOAT16

    if asked not in HALF:
        return None
    if model.family in NO_FLOAT16:
        return f"--dtype {asked}, and vLLM runs no {model.family} in float16"
    if model.quantized is not None and model.quantized.method == "mxfp4":
        return f"--dtype {asked}, and vLLM runs mxfp4 in bfloat16 alone"
    return None
