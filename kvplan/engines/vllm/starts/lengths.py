"""The max_model_len that vLLM takes when none is given, and the longest that it accepts.

    stated  = the smallest length that the config or its class states; model_max_length where there is one; else 2,048
    derived = stated x factor of the rotary positions' scaling
    default = original_max_position_embeddings under longrope, else derived

Source: vLLM 0.33 config/model.py _get_and_verify_max_len, transformers_utils/model_arch_config_convertor.py
derive_max_model_len_and_key; config.py of 0.6.4, 0.7.3, 0.8.5 and 0.10.0 have the same names.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.model import Context, Model, Rope
from kvplan.arch.traits import ROPE_PARAMETERS
from kvplan.engines.vllm.tables.architectures import draft_longest
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed

UNSTATED = 2048
"""What is assumed of a model that states no length."""

LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
"""Fields that state a length, of which the smallest counts."""

OWN_WORD = "model_max_length"
"""The field that replaces what the others say, and is accepted in any case."""

BORROWED = {"kimi_k2": ("max_position_embeddings", 4096)}
"""Lengths of silent configs whose type vLLM reads by another one's class. Source: vLLM 0.33 transformers_utils/config.py
_CONFIG_REGISTRY, kimi_k2="DeepseekV3Config"."""

STRETCHED = ("su", "longrope", "llama3", "deepseek_llama_scaling")
"""Scalings that the stated length already contains."""

YARN = ("yarn", "deepseek_yarn", "telechat3-yarn")
LONGROPE = ("longrope", "su")
CALLED_YARN = ("phi3", "phi4_multimodal")
"""Families whose class makes longrope of yarn, an old name of it there. Source: transformers 5.23 models/phi3, phi4_multimodal
convert_rope_params_to_dict; 4.57 _rope_scaling_adjustment."""
SCALED_ALREADY = ("gemma3",)
"""Families whose length contains the factor whatever the type."""


def accepted(model: Model, rules: Rules) -> int | None:
    """The longest max_model_len that vLLM takes without being told to; None when it takes any."""
    said = stated(model, rules)
    if said is None:
        return None
    return max(_scaled(said, model, rules).tokens or 0, dict(model.context.lengths or ()).get(OWN_WORD, 0))


def default(model: Model, rules: Rules) -> Context:
    """What vLLM uses when --max-model-len isn't given, and why."""
    context = model.context
    found = _within_draft(derived(model, rules), model, rules)
    if rules.longrope_original and context.original and any(rope.kind in LONGROPE for rope in ropes(model, rules)):
        return Context(context.original, "original_max_position_embeddings, vLLM's default under longrope")
    return found


def _within_draft(found: Context, model: Model, rules: Rules) -> Context:
    longest = draft_longest(model)
    if not rules.draft_limits or longest is None or (found.tokens or 0) <= longest:
        return found
    return Context(longest, "all that the draft model serves")


def ropes(model: Model, rules: Rules) -> tuple[Rope, ...]:
    """The scalings of rotary positions that the release reads."""
    if not rules.rope_parameters_read and ROPE_PARAMETERS in model.traits:
        return ()
    return tuple(
        replace(rope, kind=LONGROPE[0]) if rope.kind == "yarn" and model.family in CALLED_YARN else rope
        for rope in model.context.ropes
    )


def check(model: Model, rules: Rules) -> None:
    """Nothing, if the length that vLLM reads in the config is one.

    Raises: NotServed.
    """
    found = _lengths(model, rules)
    name = min(found, key=lambda each: found[each], default=None)
    if name is not None and found[name] <= 0:
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't serve {model.origin.id} at any length",
            cause=f"it takes the smallest length of the config for the model's, and {name} is {found[name]}",
            hint=f"a config without {name}, or --engine ideal",
        )


def stated(model: Model, rules: Rules) -> Context | None:
    """The length that vLLM reads in the config, before any scaling, and the field; None where it finds none."""
    context = model.context
    if context.lengths is None:  # no config was read
        return context if context.tokens is not None else None
    found = {name: tokens for name, tokens in _lengths(model, rules).items() if tokens > 0}
    if not found and model.family in BORROWED:
        name, tokens = BORROWED[model.family]
        return Context(tokens, f"{name} of the class that vLLM reads {model.family} by")
    return min((Context(tokens, _reason(name, context)) for name, tokens in found.items()), key=_tokens, default=None)


def _lengths(model: Model, rules: Rules) -> dict[str, int]:
    """The lengths that the config or its class states and vLLM reads, by field: of several the smallest counts."""
    found = {name: tokens for name, tokens in model.context.lengths or () if name in LENGTHS}
    replaced = rules.own_length and found.get(OWN_WORD)
    return {OWN_WORD: found[OWN_WORD]} if replaced else found


def _tokens(context: Context) -> int:
    return context.tokens or 0


def _reason(name: str, own: Context) -> str:
    """The field's name, and whether only its class says so."""
    return own.reason if own.reason.split(",")[0] == name else name


def derived(model: Model, rules: Rules) -> Context:
    """The length that vLLM makes of the config, and why."""
    nothing = f"the config states no length: vLLM assumes {UNSTATED:,}"
    return _scaled(stated(model, rules) or Context(UNSTATED, nothing), model, rules)


def _scaled(found: Context, model: Model, rules: Rules) -> Context:
    tokens, reason = found.tokens or UNSTATED, found.reason
    if any(name in model.family for name in SCALED_ALREADY):
        return Context(tokens, reason)
    factor = 1.0
    for rope in ropes(model, rules):
        if rope.kind in STRETCHED or (rope.kind in YARN and not rules.yarn_stretches):
            continue
        if rope.kind == "yarn" and rope.original:
            tokens, reason = rope.original, "original_max_position_embeddings of yarn"
        factor = rope.factor or factor
    if factor == 1:
        return Context(tokens, reason)
    return Context(int(tokens * factor), f"{reason} x factor {factor:g} of its rotary scaling")
