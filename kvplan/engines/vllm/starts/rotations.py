"""Types of rotary positions that vLLM builds, and what each needs to be told.

Before 0.12 classes take the rotation apart themselves, or don't look at it: their types aren't judged.

Source: vLLM 0.33 model_executor/layers/rotary_embedding/__init__.py get_rope, transformers_utils/config.py
patch_legacy_rope_type; transformers 5.23 modeling_rope_utils.py, which vLLM reads configs by, and which fills
original_max_position_embeddings in.
"""

from __future__ import annotations

from kvplan.arch.model import Model, Rope
from kvplan.arch.traits import NO_ROPE_TYPE, TWO_ROPE_TYPES, UNROTATED
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed

JUDGED: Version = (0, 12, 0)
"""The first release in which every class hands get_rope what the config says."""

FACTOR = frozenset({"factor"})
FACTORS = frozenset({"long_factor", "short_factor"})

NEEDED: dict[str, frozenset[str]] = {
    **dict.fromkeys(("default", "proportional", "mllama4", "openpangu"), frozenset[str]()),
    **dict.fromkeys(("linear", "ntk", "yarn", "deepseek_yarn", "deepseek_llama_scaling"), FACTOR),
    **dict.fromkeys(("longrope", "su"), FACTORS),
    **dict.fromkeys(("mrope", "bailing_mrope"), frozenset({"mrope_section"})),
    "telechat3-yarn": FACTOR,
    "xdrope": frozenset({"alpha", "xdrope_section"}),
    "llama3": FACTOR | {"low_freq_factor", "high_freq_factor"},
    "dynamic": frozenset(),
}
"""By type, the names that it must state. Older releases know fewer types, and none that isn't here. xdrope is read as dynamic
since 0.30. Source: transformers 5.23 models/hunyuan_vl/configuration_hunyuan_vl.py convert_rope_params_to_dict."""

SINCE: dict[str, Version] = {"telechat3-yarn": (0, 30, 0)}
"""Types that no release before this one knows."""

CONVERTED = {"xdrope": ((0, 30, 0), "hunyuan_vl")}
"""Types that only the config classes of some types of models turn into another one, by how those begin, and since when: before,
every class has them."""

EITHER = {"dynamic": FACTOR | {"alpha"}}
"""By type, names of which one must be stated."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if vLLM builds every rotation that the config states, or none at all.

    Raises: NotServed.
    """
    if rules.version < JUDGED or UNROTATED in model.traits:
        return
    missing = _untyped(model) or next(
        filter(None, (_missing(rope, model, rules) for rope in model.context.ropes)), None
    )
    if missing is not None:
        raise NotServed(
            f"vLLM {text(rules.version)} can't build the rotary positions of {model.origin.id}",
            cause=missing,
            hint="its rope_scaling (or rope_parameters) as published, null where the model is used at its own length, "
            "or --engine ideal",
        )


def _untyped(model: Model) -> str | None:
    if TWO_ROPE_TYPES in model.traits:
        return "Found conflicts between its rope_type (modern field) and type (legacy field): you should only specify one of them"
    return "Unknown RoPE scaling type None" if NO_ROPE_TYPE in model.traits else None


def _anothers(rope: Rope, model: Model, rules: Rules) -> bool:
    """Whether only other types of models have such a rotation."""
    since, whose = CONVERTED.get(rope.kind, (rules.version, ""))
    return rules.version >= since and not model.whole.startswith(whose)


def _missing(rope: Rope, model: Model, rules: Rules) -> str | None:
    if rope.kind not in NEEDED or rules.version < SINCE.get(rope.kind, JUDGED) or _anothers(rope, model, rules):
        return f"Unknown RoPE scaling type {rope.kind}"
    lacking = sorted(NEEDED[rope.kind].difference(rope.keys))
    if "factor" in lacking and rope.unread is not None:
        return f"its rope type {rope.kind} states the factor {rope.unread}, where a number above 0 is needed"
    if lacking:
        return f"its rope type {rope.kind} states no {' and no '.join(lacking)}"
    either = EITHER.get(rope.kind)
    return (
        f"its rope type {rope.kind} states neither {' nor '.join(sorted(either))}"
        if either and not either.intersection(rope.keys)
        else None
    )
