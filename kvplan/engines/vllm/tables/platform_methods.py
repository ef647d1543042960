"""Methods of quantization that vLLM's platforms for other vendors take, where they list them, and the releases.

Source: supported_quantization of platforms/rocm.py of 0.8.0 to 0.33, and of platforms/xpu.py, which lists them since 0.27.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engines.vllm.tables.versions import Version

LISTED: Mapping[str, Version] = {"amd": (0, 8, 0), "intel": (0, 27, 0)}
"""By vendor: the first release that was read to list what its platform takes."""

_AMD = {
    **dict.fromkeys(("awq", "compressed-tensors", "fbgemm_fp8", "fp8", "gptq", "quark"), "0.8.0"),
    **dict.fromkeys(
        ("deepseek_v4_fp8", "fp8_per_block", "fp8_per_tensor", "modelopt", "modelopt_mixed", "modelopt_mxfp8", "mxfp8", "online"),
        "0.21.0",
    ),
    "auto_awq": "0.24.0", "auto_gptq": "0.22.0", "awq_marlin": "0.14.0", "bitsandbytes": "0.17.0-0.27.1", "fp8_per_channel": "0.24.0",
    "gguf": "0.8.0-0.23.0", "gpt_oss_mxfp4": "0.20.0", "gptq_marlin": "0.14.0-0.24.0", "inc": "0.28.0", "modelopt_fp4": "0.20.0",
    "mxfp4": "0.10.1", "petit_nvfp4": "0.10.2-0.19.1", "ptpc_fp8": "0.8.0-0.18.1", "torchao": "0.10.2",
}  # fmt: skip

_INTEL = {
    **dict.fromkeys(
        (
            "auto_awq", "auto_gptq", "awq", "compressed-tensors", "deepseek_v4_fp8", "fp8", "fp8_per_block", "fp8_per_tensor",
            "gpt_oss_mxfp4", "gptq", "inc", "modelopt", "mxfp4", "mxfp8", "online",
        ),
        "0.27.0",
    ),
    "fp8_per_channel": "0.32.0", "moe_wna16": "0.30.0",
}  # fmt: skip

METHODS_OF: Mapping[str, Mapping[str, str]] = {"amd": _AMD, "intel": _INTEL}
"""By vendor."""

NAMES = {"amd": "rocm", "intel": "xpu"}
"""What vLLM calls their platforms."""

STANDS_FOR: Mapping[str, tuple[str, ...]] = {"modelopt_fp4": ("petit_nvfp4",), "auto-round": ("inc",)}
"""Methods that others stand in for there. Source: quantization/petit.py override_quantization_method; inc.py."""
