"""Caches of encoders' outputs, which only some kernels take.

Source: vLLM 0.33 v1/attention/backends/triton_attn.py TritonAttentionImpl, which runs cross-attention and the encoder's
own layers where FlashAttention takes no fp8; 0.24.0 is the first release that refuses there.
"""

from __future__ import annotations

from kvplan.arch.layers import CrossAttention
from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.errors import WontStart

NATIVE_FP8 = (8, 9)
"""Compute capability from which Triton has fp8 of its own."""


def check_format(model: Model, name: str, rules: Rules, device: tuple[int, int]) -> None:
    """Nothing, if a kernel of the device takes caches of this format for layers that read an encoder's output.

    Raises: WontStart.
    """
    if model.has(CrossAttention) and name.startswith("fp8") and device < NATIVE_FP8 and rules.encoders_checked:
        raise WontStart(
            f"vLLM takes no {name} cache for {model.origin.id} on this GPU",
            cause="FP8 KV cache is not supported by the Triton attention backend, which its encoder and cross-attention run in, "
            "below compute capability 8.9",
            hint="--kv-dtype auto, or a GPU of compute capability 8.9 or later",
        )
