"""Types of rotary positions that vLLM builds, and what each needs to be told.

Before 0.12 classes take the rotation apart themselves, or don't look at it: their types aren't judged.

Source: vLLM 0.33 model_executor/layers/rotary_embedding/__init__.py get_rope, transformers_utils/config.py
patch_legacy_rope_type; transformers 5.23 modeling_rope_utils.py, which vLLM reads configs by, and which fills
original_max_position_embeddings in.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.arch.model import Model, Rope
from kvplan.arch.traits import NO_ROPE_TYPE, OWN_CODE, ROPES_BY_LAYER, TWO_ROPE_TYPES, UNROTATED
from kvplan.engines.vllm.tables.language import one_rotation
from kvplan.engines.vllm.tables.library import FIFTH, by_library
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import OLDEST, Version, text
from kvplan.errors import NotServed

FACTOR = frozenset({"factor"})
FACTORS = frozenset({"long_factor", "short_factor"})
ORIGINAL = frozenset({"original_max_position_embeddings"})
MSCALES = frozenset({"long_mscale", "short_mscale"})

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
"""By type, names of which one must be stated, before Transformers 5: that wants a factor beside alpha."""

PHI3 = {"default": frozenset[str](), "longrope": FACTORS, "su": FACTORS | ORIGINAL, "yarn": FACTORS}
OF_A_TYPE = {"phi3": PHI3, "phi4_multimodal": PHI3}
"""By type of model, all rotations that its class of Transformers 5 takes, and what each must state. Their su and yarn are longrope
under an old name, and only the new name has its original length looked for beside the rotation.

Source: transformers 5.19 models/phi3/configuration_phi3.py, models/phi4_multimodal; asked of vLLM 0.33.
"""

OF_A_TYPE_TOO = {"phimoe": MSCALES}
"""By type of model, what every rotation but the default one must state too. Source: models/phimoe/configuration_phimoe.py."""


OF_A_CLASS = {"gpt_oss": FACTOR | {"beta_fast", "beta_slow"}}
"""By type of model, what its class in vLLM reads of any rotation that is stated. Source: vLLM 0.33 models/gpt_oss.py."""


AS_YARN = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2", "axk1")
"""Types of model whose classes call every rotation but the default one deepseek_yarn.

Source: models/deepseek_v2.py, models/AXK1.py; transformers fills the original length in for types that it counts from it.
"""

COUNTED_FROM_ORIGINAL = ("default", "yarn", "deepseek_yarn", "llama3", "longrope", "su")


class Fault(NamedTuple):
    """Why a rotation isn't built, and what to write instead."""

    cause: str
    hint: str = "its rope_scaling (or rope_parameters) as published, null where the model is used at its own length"


def check(model: Model, rules: Rules) -> None:
    """Nothing, if vLLM builds every rotation that the config states, or none at all.

    Raises: NotServed.
    """
    if not rules.rotations_checked or UNROTATED in model.traits:
        return
    fault = (
        _untyped(model)
        or _by_layer(model, rules)
        or next(filter(None, (_fault(rope, model, rules) for rope in model.context.ropes)), None)
    )
    if fault is not None:
        raise NotServed(
            f"vLLM {text(rules.version)} can't build the rotary positions of {model.origin.id}",
            cause=fault.cause,
            hint=f"{fault.hint}, or --engine ideal",
        )


def _untyped(model: Model) -> Fault | None:
    if TWO_ROPE_TYPES in model.traits:
        return Fault(
            "Found conflicts between its rope_type (modern field) and type (legacy field): you should only specify one of them"
        )
    return Fault("Unknown RoPE scaling type None") if NO_ROPE_TYPE in model.traits else None


BY_LAYER = frozenset((
    "beam", "cohere_compass_text", "deepseek_v4", "diffusion_gemma_text", "dots3_note_text", "embedding_gemma2_text", "gemma3_text",
    "gemma3n_text", "gemma4_text", "gemma4_unified_text", "laguna", "lfm3", "mellum", "mimo_v2_flash", "modernbert",
    "modernbert-decoder", "neomme", "olmo3", "step3p5", "t5gemma2_decoder", "t5gemma2_text", "ultrabert", "zaya",
))  # fmt: skip
"""Types whose code in the Transformers library turns each type of layer its own way. Source: transformers 5.23
models/*/modeling_*.py, config.rope_parameters[layer_type]."""


def _by_layer(model: Model, rules: Rules) -> Fault | None:
    """Rotations for types of layers where the model's code takes one for all.

    The library's own lays the usual one beside them where its class has no list of layers. Asked of vLLM 0.33.
    """
    if ROPES_BY_LAYER not in model.traits:
        return None
    if one_rotation(model, rules.version):
        said = "TypeError: unhashable type: 'dict'"
    elif by_library(model, rules.version) and _keeps_list(model):
        said = "KeyError: 'rope_type'"
    else:
        return None
    return Fault(
        f"{said}: its rope_parameters (or rope_scaling) says how each type of layer turns, and its class turns all of them alike",
        "write one rotation for all layers as its rope_parameters",
    )


def _keeps_list(model: Model) -> bool:
    """Whether what is said of types of layers is left as it is, and read by code that doesn't expect it."""
    listed = model.windows is not None and bool(model.windows.kinds)
    return listed and model.family not in BY_LAYER and OWN_CODE not in model.traits


def _anothers(rope: Rope, model: Model, rules: Rules) -> bool:
    """Whether only other types of models have such a rotation."""
    since, whose = CONVERTED.get(rope.kind, (rules.version, ""))
    return rules.version >= since and not model.whole.startswith(whose)


def _fault(rope: Rope, model: Model, rules: Rules) -> Fault | None:
    if rope.kind not in NEEDED or rules.version < SINCE.get(rope.kind, OLDEST) or _anothers(rope, model, rules):
        return Fault(f"Unknown RoPE scaling type {rope.kind}")
    return (
        _as_yarn(rope, model)
        or _named_twice(rope, model, rules)
        or _lacking(rope, model, rules)
        or _whole(rope, model, rules)
    )


def _as_yarn(rope: Rope, model: Model) -> Fault | None:
    """A rotation that its class takes for another, which needs to be told more."""
    if model.family not in AS_YARN or rope.kind in COUNTED_FROM_ORIGINAL or not ORIGINAL.isdisjoint(rope.keys):
        return None
    return Fault(
        f"KeyError: 'original_max_position_embeddings': the class of {model.family} makes deepseek_yarn of the rope type {rope.kind}"
    )


def _named_twice(rope: Rope, model: Model, rules: Rules) -> Fault | None:
    """Yarn that a class calls longrope, under the name of the type that the class leaves as it is."""
    if (
        rules.library < FIFTH
        or OF_A_TYPE.get(model.family) is not PHI3
        or rope.kind != "yarn"
        or "type" not in rope.keys
    ):
        return None
    return Fault(
        "Found conflicts between 'rope_type=longrope' (modern field) and 'type=yarn' (legacy field): its class makes longrope of yarn",
        '"type": "longrope" in its rope_scaling',
    )


def _lacking(rope: Rope, model: Model, rules: Rules) -> Fault | None:
    """What the rotation doesn't state, or a type that the model's class doesn't take."""
    fifth = rules.library >= FIFTH
    taken = OF_A_TYPE.get(model.family) if fifth else None
    if taken is not None and rope.kind not in taken:
        return Fault(f"`rope_parameters`'s type field must be one of ['longrope'], got {rope.kind}")
    needed = NEEDED[rope.kind] if taken is None else taken[rope.kind]
    needed |= OF_A_CLASS.get(model.family, frozenset())
    either = EITHER.get(rope.kind, frozenset())
    if fifth:
        needed |= (either & FACTOR) | (
            OF_A_TYPE_TOO.get(model.family, frozenset()) if rope.kind != "default" else frozenset()
        )
    lacking = sorted(needed.difference(rope.keys))
    if "factor" in lacking and rope.unread is not None:
        return Fault(f"its rope type {rope.kind} states the factor {rope.unread}, where a number above 0 is needed")
    if ORIGINAL.issuperset(lacking) and lacking:
        return Fault(
            f"Missing required keys in `rope_parameters` for 'rope_type'='longrope': {{'{lacking[0]}'}}; its rope type is "
            f"{rope.kind}, an old name of it",
            '"type": "longrope" in its rope_scaling',
        )
    if lacking:
        return Fault(f"its rope type {rope.kind} states no {' and no '.join(lacking)}")
    if either and either.isdisjoint(rope.keys):
        return Fault(f"its rope type {rope.kind} states neither {' nor '.join(sorted(either))}")
    return None


def _whole(rope: Rope, model: Model, rules: Rules) -> Fault | None:
    """A linear rotation's factor without a point, which vLLM's own class takes for a list.

    Source: layers/rotary_embedding/linear_scaling_rope.py of 0.12 to 0.33, isinstance(scaling_factors, float).
    """
    if rope.kind != "linear" or not isinstance(rope.factor, int) or by_library(model, rules.version):
        return None
    return Fault(
        f"'int' object is not iterable: its rope type linear states the factor {rope.factor}, where a number with a point is needed",
        f'"factor": {rope.factor}.0 in its rope_scaling (or rope_parameters)',
    )
