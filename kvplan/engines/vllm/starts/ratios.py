"""Ratios of compression that vLLM's compressor is built for.

Source: vLLM 0.33 models/deepseek_v4/compressor.py, `assert compress_ratio in [4, 128]`; a ratio of 0 or 1 has no compressor.
"""

from __future__ import annotations

from kvplan.arch.layers import Compressed
from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed

BUILT = (4, 128)


def check(model: Model, rules: Rules) -> None:
    """Nothing, if every compressed layer has a ratio that vLLM's compressor is built for.

    Raises: NotServed.
    """
    for cache, _ in model.distinct:
        if isinstance(cache, Compressed) and cache.ratio is not None and cache.ratio not in BUILT:
            raise NotServed(
                f"vLLM {text(rules.version)} has no compressor for {model.origin.id}",
                cause=f"its config's compress_ratios (or compress_rates) have {cache.ratio}, and vLLM builds 4 and 128 alone",
                hint="ratios of 0, 4 and 128 in the config, or --engine ideal",
            )
