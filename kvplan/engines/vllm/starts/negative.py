"""A window of -1 tokens, or before 0.19 of none, which vLLM's planner counts with: layers of a window get a block more than they have tokens for.

Source: vLLM 0.33 v1/kv_cache_interface.py SlidingWindowSpec, whose sliding_window is the config's; 0.33's planner printed
402,902 tokens for a Gemma 2 that has 403,296 without a window. Only layers/attention/attention.py asks for it: latents and
states are built without. Source of 0: config/model.py from 0.19, which takes it for null.
"""

from __future__ import annotations

from kvplan.arch.layers import Attention
from kvplan.arch.model import Model
from kvplan.arch.traits import NEGATIVE_WINDOW, ZERO_WINDOW
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import Unsupported


def check(model: Model, rules: Rules) -> None:
    """Nothing, if windows are positive or absent, or no layer asks for one.

    Raises: Unsupported.
    """
    asked = any(isinstance(cache, Attention) and cache.chunk is None for cache, _ in model.distinct)
    below = NEGATIVE_WINDOW in model.traits or (ZERO_WINDOW in model.traits and not rules.zero_is_none)
    if below and asked:
        raise Unsupported(
            f"vLLM {text(rules.version)} takes the sliding_window of {model.origin.id} for a window",
            cause="it is below one, which switches windows off elsewhere, and vLLM plans a window of that many tokens",
            hint='"sliding_window": null in its config.json, which computes the same, or --engine ideal',
        )
