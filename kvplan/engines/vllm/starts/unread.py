"""Configs that no model is made of: dimensions that don't agree, a list that isn't there.

Source: transformers 5.19 configuration_*.py of the types; vLLM 0.33 transformers_utils/configs/kimi_linear.py, models/lfm2_moe.py.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.arch.model import Model
from kvplan.arch.traits import (
    CODE_BESIDE,
    MISTYPED,
    NULLED,
    OTHER_STATE,
    PART_FOR_WHOLE,
    TEXT_FOR_WHOLE,
    UNLISTED,
    stated,
)
from kvplan.engines.vllm.tables.language import reads_whole
from kvplan.engines.vllm.tables.library import FIFTH
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed, Unsupported


class Sizes(NamedTuple):
    """Fields of a state's heads that have to agree, and what is said where they don't."""

    fields: str
    said: str


SIZES = {
    "mamba2": Sizes(
        "num_heads, head_dim and expand",
        "Inconsistent configuration: hidden_size * expand must equal num_heads * head_dim (128, 64 and 2 where num_heads, "
        "head_dim and expand aren't stated)",
    ),
    "zamba2": Sizes(
        "n_mamba_heads and mamba_headdim",
        "its class builds heads of mamba_expand x hidden_size / n_mamba_heads (2 and 8 where mamba_expand and n_mamba_heads aren't "
        "stated), which isn't its mamba_headdim, so that the checkpoint's weights don't fit",
    ),
}
USUAL_SIZES = Sizes(
    "mamba_n_heads, mamba_d_head and mamba_expand",
    "The dimensions for the Mamba head state do not match the model intermediate_size: mamba_n_heads x mamba_d_head isn't "
    "mamba_expand x hidden_size (mamba_d_ssm where that is stated)",
)
"""By type, and of all others."""

LISTS = {"kimi_linear": "linear_attn_config", "step5": "sparse_config"}
USUAL_LIST = "layer_types"
"""The field with the list of layers, by type and of all others."""


OWN_CLASSES = frozenset((
    "beam", "deepseek_v32", "dots3_note", "flint", "inkling_mm_model", "kimi_linear", "minimax_m3_vl", "moss_transcribe_diarize", "qwen3_asr", "shieldgemma2", "unlimited_ocr",
))  # fmt: skip
"""Types of whole configs that vLLM reads by classes of its own, which aren't strict. Source: vLLM 0.33 transformers_utils/config.py
_CONFIG_REGISTRY; asked of it field by field."""

CODE = ", though the code that the checkpoint brings may, with --trust-remote-code"
"""What is added where a checkpoint brings code for a type that the library has a class for."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if the config is taken.

    Raises: NotServed; Unsupported where code of the checkpoint's own may take what the library doesn't.
    """
    what = f"vLLM {text(rules.version)} can't read the config of {model.origin.id}"
    if OTHER_STATE in model.traits:
        sizes = SIZES.get(model.family, USUAL_SIZES)
        raise NotServed(what, cause=sizes.said, hint=f"{sizes.fields} as published, or --engine ideal")
    if TEXT_FOR_WHOLE in model.traits:
        raise NotServed(
            what,
            cause=f"it names {model.architectures[0]}, which is built of a config with a text model and towers in it, and this one is of "
            f"a text model alone ({model.family})",
            hint=f"the whole's config.json, or the class of {model.family} in architectures; or --engine ideal",
        )
    _part(model, rules, what)
    null = stated(model.traits, NULLED)
    if null is not None and rules.library >= FIFTH and model.whole not in OWN_CLASSES:
        refused, other = (Unsupported, CODE) if CODE_BESIDE in model.traits else (NotServed, "")
        raise refused(
            what,
            cause=f"{null} is null (or 0, which is read as null), and Transformers 5's class of {model.family} takes none for it{other}",
            hint=f'leave "{null}" out of its config.json, or state what it is; or --engine ideal',
        )
    wrong = stated(model.traits, MISTYPED)
    if wrong is not None and rules.library >= FIFTH and model.whole not in OWN_CLASSES:
        refused, other = (Unsupported, CODE) if CODE_BESIDE in model.traits else (NotServed, "")
        raise refused(
            what,
            cause=f"{wrong}, which Transformers 5's class of {model.family} asks for{other}",
            hint="write it so in its config.json; or --engine ideal",
        )
    if UNLISTED in model.traits:
        field = LISTS.get(model.family, USUAL_LIST)
        raise NotServed(
            what,
            cause=f"it doesn't state {field}, and {model.family} isn't built from what it says of its layers instead",
            hint=f'"{field}" as published in its config.json, or --engine ideal',
        )


def _part(model: Model, rules: Rules, what: str) -> None:
    """A text model's class, named by the config of a whole, which may look for the text model's fields where they aren't.

    Before Transformers 5 those fields could stand at a whole's top.

    Raises: NotServed; Unsupported where it isn't known what the class finds.
    """
    part = stated(model.traits, PART_FOR_WHOLE)
    if part is None:
        return
    named = model.architectures[0]
    blind = reads_whole(model, rules.version)
    if not blind and part == model.family:
        return
    cause = (
        f"it names {named}, which is built of the config of a text model alone ({part}), and this one is of a whole ({model.whole}) "
        "with its text model inside"
    )
    hint = f"the class of {model.whole} in architectures; or --engine ideal"
    if blind and rules.library >= FIFTH:
        raise NotServed(what, cause=cause, hint=hint)
    raise Unsupported(
        f"kvplan doesn't know whether vLLM {text(rules.version)} builds {model.origin.id}", cause=cause, hint=hint
    )
