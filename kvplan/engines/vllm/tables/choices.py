"""Flags whose values are words of a list, and the releases that take each word."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engines.vllm.tables.flags import BLOCKS, CACHE_FORMATS, LORA_RANKS, QUANTIZATIONS
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import Version

EVERY = "0.6.0"

DTYPES = dict.fromkeys(("auto", "half", "float16", "bfloat16", "float", "float32"), EVERY)
"""Value of --dtype. Source: --dtype's choices in engine/arg_utils.py, then ModelDType, of 0.6.4 to 0.33: the same six."""

AUTO_ROUNDS = {"auto-round": "0.9.0-0.14.1 0.17.0", "auto_round": "0.17.0"}
"""Names of AutoRound's method, which vLLM calls inc since 0.15: any word passes the parser since 0.17, and its blocks decide whatever is asked for.

Source: engine/arg_utils.py EngineArgs.quantization; layers/quantization/inc.py override_quantization_method.
"""

CHOICES: Mapping[str, Mapping[str, str]] = {
    "block-size": BLOCKS,
    "dtype": DTYPES,
    "kv-cache-dtype": {"auto": EVERY, **CACHE_FORMATS},
    "max-lora-rank": LORA_RANKS,
    "quantization": {**QUANTIZATIONS, **AUTO_ROUNDS},
}
"""Flag without its dashes: its values, each with its releases."""

OPEN: Mapping[str, Version] = {"block-size": (0, 18, 0)}
"""Flags that take any value from a release on."""


def taken(flag: str, value: str, release: Version) -> bool:
    """Whether a release takes a value; a flag without a list takes any."""
    listed = CHOICES.get(flag)
    return listed is None or release >= OPEN.get(flag, (release[0] + 1, 0, 0)) or holds(listed.get(value, ""), release)


def ever_taken(flag: str, value: str) -> bool:
    """Whether some release takes a value."""
    return flag not in CHOICES or flag in OPEN or value in CHOICES[flag]
