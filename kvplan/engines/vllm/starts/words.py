"""What vLLM prints when it would not start for want of memory, word for word as each release does.

Source: v1/core/kv_cache_utils.py (since 0.29 kv_cache_planning.py), before 0.8 worker/worker.py, of 0.6.4, 0.7.3, 0.8.5,
0.9.0, 0.9.1, 0.9.2, 0.10.0 and every later release. What stood in 0.8.0 to 0.8.4 is taken from 0.7.3.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.vllm.tables.versions import Version
from kvplan.units import GIB

SEE = " See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."


class Wording(NamedTuple):
    """Words of the releases from `since` on.

    cramped: when nothing is left. long: when one request is too long, with {length}, {needed}, {available}, {estimate},
    {stored}. estimate: the sentence of the longest length, with {longest}. rounded: whether sizes are rounded numbers, and
    not printed with two decimals.
    """

    since: Version
    cramped: str
    long: str
    estimate: str = ""
    rounded: bool = False


_TRY = "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
_NONE = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine"
_NEEDS = (
    "To serve at least one request with the {whose} max seq len ({{length}}), ({{needed}} {unit} KV cache is needed, which "
    "is larger than the available KV cache memory ({{available}} {unit})."
)
_MODELS = _NEEDS.format(whose="models's", unit="GiB")
_ESTIMATE = "Based on the available memory, the estimated maximum model length is {longest}."

WORDINGS = (
    Wording((0, 0, 0), f"{_NONE}.", "The model's max seq len ({length}) is larger than the maximum number of tokens that can be stored in KV cache "
            f"({{stored}}). {_TRY}"),
    Wording((0, 8, 0), f"{_NONE}.", _NEEDS.format(whose="models's", unit="GB") + f" {_TRY}"),
    Wording((0, 8, 5), f"{_NONE}.", _MODELS + "{estimate}  " + _TRY, " Based on the available memory,"),
    Wording((0, 9, 1), f"{_NONE}.", _MODELS + " {estimate} " + _TRY, _ESTIMATE),
    Wording((0, 13, 0), f"{_NONE}.{SEE}", _MODELS + " {estimate} " + _TRY + SEE, _ESTIMATE),
    Wording((0, 14, 0), f"{_NONE}.{SEE}", _MODELS + " {estimate}" + _TRY + SEE, f"{_ESTIMATE} ", rounded=True),
    Wording((0, 22, 0), f"{_NONE} (this flag also controls CPU memory reservation on the CPU backend, despite its name).{SEE}",
            _NEEDS.format(whose="model's", unit="GiB") + " {estimate}" + _TRY.replace("` or", "` (which also controls CPU memory on the CPU backend) or") + SEE,
            f"{_ESTIMATE} ", rounded=True),
)  # fmt: skip


def wording(release: Version) -> Wording:
    """The words of a release."""
    return next(words for words in reversed(WORDINGS) if words.since <= release)


def too_long(release: Version, length: int, needed: int, available: int, longest: int, stored: int) -> str:
    """One request of `length` tokens needs more bytes than are available.

    longest: tokens of the longest that would fit, 0 for none. stored: tokens that the pool would hold.
    """
    words = wording(release)
    sizes = (needed, available)
    shown = [str(round(size / GIB, 2)) if words.rounded else f"{size / GIB:.2f}" for size in sizes]
    estimate = words.estimate.format(longest=longest) if longest else ""
    return words.long.format(length=length, needed=shown[0], available=shown[1], estimate=estimate, stored=stored)
