"""The max_model_len that vLLM takes when none is given, and the longest that it accepts.

    derived = length the config states, else 2,048; x factor of the rotary positions' scaling
    default = original_max_position_embeddings under longrope, else derived

Source: vLLM 0.33 config/model.py _get_and_verify_max_len.
"""

from __future__ import annotations

from kvplan.arch.model import Context, Model
from kvplan.engines.base import Excess, Setup
from kvplan.engines.vllm.tables.variables import LONGER
from kvplan.engines.vllm.tables.versions import Rules

UNSTATED = 2048
"""What is assumed of a model that states no length."""

STRETCHED = ("su", "longrope", "llama3", "deepseek_llama_scaling")
"""Scalings that the stated length already contains."""

YARN = ("yarn", "deepseek_yarn")
LONGROPE = ("longrope", "su")
SCALED_ALREADY = ("gemma3",)
"""Families whose length contains the factor whatever the type."""


def accepted(model: Model, rules: Rules) -> int | None:
    """The longest max_model_len that vLLM takes without LONGER; None when it takes any."""
    return None if model.context.tokens is None else derived(model, rules).tokens


def excess(setup: Setup, rules: Rules) -> Excess | None:
    """By what a setup's length is more than what vLLM takes without being told to; None where it isn't."""
    return Excess.of(setup, accepted(setup.model, rules), LONGER)


def default(model: Model, rules: Rules) -> Context:
    """What vLLM uses when --max-model-len isn't given, and why."""
    context = model.context
    found = _within_draft(derived(model, rules), model, rules)
    if rules.longrope_original and context.original and any(rope.kind in LONGROPE for rope in context.ropes):
        return Context(context.original, "original_max_position_embeddings, vLLM's default under longrope")
    return found


def _within_draft(found: Context, model: Model, rules: Rules) -> Context:
    longest = model.draft_longest
    if not rules.draft_limits or longest is None or (found.tokens or 0) <= longest:
        return found
    return Context(longest, "all that the draft model serves")


def derived(model: Model, rules: Rules) -> Context:
    """The length that vLLM makes of the config, and why."""
    stated, reason = model.context.tokens, model.context.reason
    if stated is None:
        stated, reason = UNSTATED, f"the config states no length: vLLM assumes {UNSTATED:,}"
    if any(name in model.family for name in SCALED_ALREADY):
        return Context(stated, reason)
    factor = 1.0
    for rope in model.context.ropes:
        if rope.kind in STRETCHED or (rope.kind in YARN and not rules.yarn_stretches):
            continue
        if rope.kind == "yarn" and rope.original:
            stated, reason = rope.original, "original_max_position_embeddings of yarn"
        factor = rope.factor or factor
    if factor == 1:
        return Context(stated, reason)
    return Context(int(stated * factor), f"{reason} x factor {factor:g} of its rotary scaling")
