"""Caches of encoders' outputs, which only some kernels take, and steps that must hold such an output whole.

Source: vLLM 0.33 v1/attention/backends/triton_attn.py TritonAttentionImpl, which runs cross-attention and the encoder's
own layers where FlashAttention takes no fp8; 0.24.0 is the first release that refuses there.
"""

from __future__ import annotations

from kvplan.arch.layers import CrossAttention
from kvplan.arch.model import Model
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.errors import WontStart

NATIVE_FP8 = (8, 9)
"""Compute capability from which Triton has fp8 of its own."""


def check(model: Model, settings: Settings, rules: Rules) -> None:
    """Nothing, if a step has room for the longest input of every encoder that layers read the output of.

    Source: vLLM 0.11.1 and 0.33 config/scheduler.py, v1/core/encoder_cache_manager.py compute_mm_encoder_budget.

    Raises: WontStart.
    """
    longest = max((cache.tokens for cache, _ in model.distinct if isinstance(cache, CrossAttention)), default=0)
    if rules.steps_capped and settings.tokens < longest:
        raise WontStart(
            f"max_num_batched_tokens ({settings.tokens}) is smaller than the longest input of the encoder ({longest})",
            cause=f"Chunked MM input disabled but max_tokens_per_mm_item ({longest}) is larger than max_num_batched_tokens "
            f"({settings.tokens})",
            hint=f"--max-num-batched-tokens {longest}",
        )


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
