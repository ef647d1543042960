"""The longest sequence a config justifies, through every spelling of length and of rope scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.arch.model import Context
from kvplan.families.fields import LARGEST, Fields

STATED = ("model_max_length", "max_sequence_length")
"""A model's own word on its length, which some state beside a smaller or absent table size (Command-R, Kimi-Linear)."""

TABLES = (
    "max_position_embeddings", "n_positions", "max_seq_len", "max_context_length", "max_target_positions", "seq_length",
    "context_length", "n_ctx", "max_seq_length", "max_decoder_position_embeddings",
)  # fmt: skip
"""Sizes of the position table, in the order they are believed."""

SCALED_BY_ORIGINAL = ("yarn", "deepseek_yarn")
"""Rope types whose reach is original_max_position_embeddings x factor."""


def context(fields: Fields) -> Context:
    """Longest sequence in tokens, or None with the reason.

    A stated length is taken as it stands: whatever scales the rotary positions (yarn, linear, dynamic, llama3, longrope)
    is already in it, and applying a factor on top is how readers arrive at lengths no model has. Where yarn would reach
    further the reason says so. Without a stated length, yarn's reach (original x factor) is the length.
    """
    length, name = _stated(fields)
    reach = _yarn_reach(fields)
    if length is None:
        return Context(reach, "yarn: original x factor") if reach else Context(None, _why_none(fields))
    if reach is not None and reach > length:
        return Context(length, f"{name}; yarn would reach {reach}, which the config doesn't claim")
    return Context(length, name)


def _stated(fields: Fields) -> tuple[int | None, str]:
    for name in (*STATED, *TABLES):
        found = fields.find(name)
        if found is None or _is_sentinel(found[1]):
            continue
        if isinstance(found[1], list) and found[1]:
            return fields.as_whole(name, found[1][0]), name
        length = fields.as_whole(name, found[1], least=-1)
        if length > 0:
            return length, name
    for name in TABLES:
        default = fields.defaults.value(name)
        if isinstance(default, int) and default > 0:
            fields.note_default(name, default)
            return default, f"{name}, a class default"
    return None, ""


def _is_sentinel(value: object) -> bool:
    """Tokenizer configs write 1e30 for "no limit"."""
    return isinstance(value, int | float) and value > LARGEST


def _yarn_reach(fields: Fields) -> int | None:
    ropes = fields.shared("rope_scaling", "rope_parameters")
    if ropes is None or not isinstance(ropes[1], Mapping):
        return None
    nested = [value for value in ropes[1].values() if isinstance(value, Mapping)]
    return max((reach for rope in (ropes[1], *nested) if (reach := _reach(rope))), default=None)


def _reach(rope: Mapping[str, Any]) -> int | None:
    original, factor = rope.get("original_max_position_embeddings"), rope.get("factor")
    if rope.get("rope_type", rope.get("type")) not in SCALED_BY_ORIGINAL:
        return None
    if not isinstance(original, int) or not isinstance(factor, int | float) or isinstance(factor, bool):
        return None
    return int(original * factor) if 0 < original * factor <= LARGEST else None


def _why_none(fields: Fields) -> str:
    return f"none of {', '.join(fields.path + name for name in TABLES[:4])} is stated: the model has no position table"
