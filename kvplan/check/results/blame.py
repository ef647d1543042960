"""Which of several changed inputs a broken limit is shown at: one that moves what the limit bounds, and moves it the wrong way."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.check.results.metrics import STARTS
from kvplan.report.schema.check import At, Moved, Scalar

_MODEL = ("model", "revision", "engine", "engine version", "draft", "weights_basis")
_SPLIT = ("parallel.tp", "parallel.pp", "parallel.ep", "parallel.dp", "parallel.dcp")
_CACHE = ("context", "kv_dtype", "hybrid_manager", "block_size", "speculative_tokens", "prefix_caching")

MOVERS = {
    "weights": (*_MODEL, *_SPLIT, "weights_per_gpu", "max_loras", "max_lora_rank", "speculative_tokens"),
    "kv-per-token": (*_MODEL, *_SPLIT, *_CACHE, "max_num_batched_tokens"),
    "kv-per-sequence": (*_MODEL, *_SPLIT, *_CACHE, "max_num_batched_tokens"),
    "max-gpus": _SPLIT,
}
"""Inputs that move what a rule bounds; any input may move the others."""

ASIDE = {STARTS: ("max_num_seqs",), "headroom": ("max_num_seqs",), "min-context": ("max_num_seqs", "context")}
"""Inputs that hardly move what a rule bounds."""

WORSE_UP = frozenset({"context", "max_num_batched_tokens", "overhead", "weights_per_gpu", "max_loras", "max_lora_rank"})
WORSE_DOWN = frozenset(
    {"utilization", "gpu_memory", "kv_memory", "parallel.tp", "parallel.pp", "parallel.ep", "max_num_seqs"}
)
"""Inputs of which more, or less, leaves less room."""


def blamed(rule: str, moved: Iterable[Moved]) -> At | None:
    """The line of the input that broke the rule, as far as one can tell; None where no changed input has a line."""
    placed = [entry for entry in moved if entry.kind == "input" and entry.at is not None]
    ranked = sorted(placed, key=lambda entry: _doubt(rule, entry))
    return ranked[0].at if ranked else None


def _doubt(rule: str, entry: Moved) -> int:
    """0 for an input that surely went the wrong way, more the less it can be that one; equals keep their order."""
    moves = entry.name in MOVERS[rule] if rule in MOVERS else entry.name not in ASIDE.get(rule, ())
    if not moves:
        return 3
    worse = _worse(entry.name, entry.before, entry.after)
    return 1 if worse is None else 0 if worse else 2


def _worse(name: str, before: Scalar, after: Scalar) -> bool | None:
    """Whether a change leaves less room; None where its direction doesn't say."""
    then, now = _number(before), _number(after)
    if then is None or now is None or name not in WORSE_UP | WORSE_DOWN:
        return None
    return (now > then) == (name in WORSE_UP)


def _number(value: Scalar) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
