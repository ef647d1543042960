"""Flags that say of a checkpoint what its config says otherwise, so that vLLM doesn't start.

Source: vLLM 0.33 config/model.py _verify_quantization, _FLOAT16_NOT_SUPPORTED_MODELS; model_loader/weight_utils.py
get_quant_config; layers/quantization.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.base import Stated
from kvplan.engines.vllm.blocks.drafts import has_drafts
from kvplan.engines.vllm.tables.architectures import in_float16
from kvplan.engines.vllm.tables.versions import Version

LOAD_EACH_OTHER = (
    frozenset({"awq", "awq_marlin", "auto_awq", "marlin", "moe_wna16"}),
    frozenset({"gptq", "gptq_marlin", "auto_gptq", "marlin", "moe_wna16", "gptq_bitblas", "bitblas", "gptq_marlin_24"}),
)
"""Methods that take each other's blocks when they are asked for: override_quantization_method of each."""

ANYTHING = ("auto-round", "inc", "modelopt", "mxfp8", "deepseek_v4")
"""How methods begin whose blocks decide whatever is asked for, or may."""

ANY_BLOCK = ("humming", "online")
"""What takes any block."""

READ_A_FILE = frozenset(
    {"awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "inc", "auto-round", "auto_round", "modelopt", "modelopt_fp4", "modelopt_mixed", "moe_wna16"}
)  # fmt: skip
"""Methods that look for a file beside a config without a block: get_config_filenames of each. Others may quantize while
they load, as fp8 and mxfp4 do, or take what --hf-overrides says."""


def contradicted(model: Model, stated: Stated, release: Version) -> str | None:
    """Why vLLM refuses --quantization, --dtype or a draft of the model's own beside this config; None where it may not."""
    return _method(model, stated) or _dtype(model, stated, release) or _itself(model, stated)


def _itself(model: Model, stated: Stated) -> str | None:
    """Source: vLLM 0.33 config/speculative.py, where a target without prediction layers is no draft of any method."""
    if not stated.itself or stated.overridden or has_drafts(model):
        return None
    return "the model is to draft for itself, but its config states no prediction layers (vLLM: Unsupported speculative method)"


def _method(model: Model, stated: Stated) -> str | None:
    asked = stated.quantization
    if asked is None or stated.overridden:  # what overrides the config may say something of the block too
        return None
    if model.quantized is None:
        if asked not in READ_A_FILE:
            return None
        return f"--quantization {asked}, but the config names no method (vLLM: Cannot find the config file for {asked})"
    own = model.quantized.method
    if not own or asked == own or asked in ANY_BLOCK or own.startswith(ANYTHING) or model.family.startswith(ANYTHING):
        return None
    if (own == "mxfp4" and model.whole == "gpt_oss") or any({own, asked} <= each for each in LOAD_EACH_OTHER):
        return None
    return f"--quantization {asked}, but the config says {own} (vLLM: Quantization method ... does not match)"


def _dtype(model: Model, stated: Stated, release: Version) -> str | None:
    if not stated.half:
        return None
    if not in_float16(model.whole, release):
        return f"--dtype {stated.dtype}, and vLLM runs no {model.whole} in float16"
    if model.quantized is not None and model.quantized.method == "mxfp4":
        return f"--dtype {stated.dtype}, and vLLM runs mxfp4 in bfloat16 alone"
    return None
