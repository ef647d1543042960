"""What a config says that only engines branch on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.arch import traits as known
from kvplan.families import numbers, typed
from kvplan.families.counts import DRAFT_COUNTS, draft_count
from kvplan.families.defaults import TEXT_KEYS, ClassDefaults, class_defaults, of_architecture
from kvplan.families.fields import Fields, class_names
from kvplan.families.kinds import mistyped
from kvplan.families.nulls import nulled
from kvplan.families.scalings import Scaling, by_layer, of_object, only_in_parameters, scalings
from kvplan.families.spellings import SERVED_BLOCKS
from kvplan.families.weights.rotary_rules import rule_of

EMBEDDER = "gemma3_text"
"""The type whose use_bidirectional_attention is about all tokens where the model is no part of another (PaliGemma)."""

INDEXED = "hy_v4"
"""The type whose layers have indexers where the list of layers says so, or isn't there. Source: transformers 5.23 models/hy_v4."""

COMMON_ACTIVATIONS = ("silu", "swish", "relu2")


def traits(fields: Fields) -> tuple[str, ...]:
    """Names of the traits that the config states.

    Raises: BadField.
    """
    found, causal = fields.find("use_bidirectional_attention"), fields.stated_flag("is_causal")
    if found is not None and not isinstance(found[1], str):
        typed.switch(fields.path + found[0], found[1])
    embeds = found is not None and found[1] is True and fields.model_type == EMBEDDER and not fields.parents
    sees_all = embeds or causal is False
    stated = (
        (known.IMAGE_PREFIX, found is not None and found[1] == "vision"),
        (known.BOTH_WAYS, sees_all),
        (
            known.LISTED_INDEXERS,
            fields.has("indexer_types") and not fields.has("index_topk_freq", "index_topk_pattern"),
        ),
        (known.NOT_IN_16_BIT, numbers.is_wide(fields)),
        (known.TWO_ROPE_TYPES, any(map(_typed_twice, _scalings(fields)))),
        (known.NO_ROPE_TYPE, any(each.get("rope_type", each.get("type", "")) is None for each in _scalings(fields))),
        (known.ROPES_BY_LAYER, by_layer(fields.node)),
        (known.INDEXES_HEADS, fields.has("indexer_n_heads")),
        (known.ROPE_PARAMETERS, only_in_parameters(fields.node)),
        (known.OTHER_STATE, _sized_apart(fields)),
        (known.UNLISTED, _unlisted(fields)),
        (known.UNROTATED, not _rotates(fields)),
        (known.DENSE_UNLISTED, fields.model_type == INDEXED and fields.node.get("layer_types") is None),
        (known.OTHER_ACTIVATION, _other_activation(fields)),
        (known.OWN_CODE, _brings_code(fields)),
        (known.CODE_BESIDE, _brings_code_beside(fields)),
        (known.UNKNOWN_TYPE, _is_unknown(fields)),
        (known.UNTYPED, not isinstance((fields.node, *fields.parents)[-1].get("model_type"), str)),
        (known.TEXT_FOR_WHOLE, _names_a_whole(fields)),
        (known.NAMELESS, not (fields.node, *fields.parents)[-1].get("architectures")),
        (known.PART_NAMELESS, bool(fields.parents) and not fields.node.get("architectures")),
        (known.NO_DRAFTS, not fields.node.keys().isdisjoint(DRAFT_COUNTS) and not draft_count(fields)),
        (known.GPTQ_ORDER, _ordered(_quantization(fields))),
        (known.FP8_SCALES, _scaled(_quantization(fields))),
    )
    return (*(name for name, holds in stated if holds), *_values(fields))


def _values(fields: Fields) -> Iterator[str]:
    spelled = fields.defaults.spellings
    if (null := nulled(fields)) is not None:
        yield f"{known.NULLED}={null}"
    outermost = (fields.node, *fields.parents)[-1]
    yield from (f"{known.SEES}={field}" for field in known.SEEN if field in outermost)
    if (wrong := mistyped(fields)) is not None:
        yield f"{known.MISTYPED}={wrong}"
    if (part := _part_named(fields)) is not None:
        yield f"{known.PART_FOR_WHOLE}={part}"
    for field in known.VALUES:
        node = outermost if field in known.OF_WHOLES else fields.node
        name = next((each for each in (field, spelled.get(field, field)) if each in node), None)
        if name is not None:
            yield f"{field}={node[name]}"


STATE_SIZES = {
    "mamba2": ("expand", "num_heads", "head_dim", ""),
    "granitemoehybrid": ("mamba_expand", "mamba_n_heads", "mamba_d_head", ""),
    "bamba": ("mamba_expand", "mamba_n_heads", "mamba_d_head", ""),
    "falcon_h1": ("mamba_expand", "mamba_n_heads", "mamba_d_head", "mamba_d_ssm"),
    "zamba2": ("mamba_expand", "n_mamba_heads", "mamba_headdim", ""),
}
"""By type, what a state's inner width is a multiple of the hidden size by, its heads, their size, and the width itself where it may
be stated. Source: transformers 5.19 validate_architecture of models/mamba2, granitemoehybrid, bamba, falcon_h1; models/zamba2, which
counts the size of heads itself and leaves no other."""


def _sized_apart(fields: Fields) -> bool:
    """Whether heads of a state don't fill its inner width; "auto" is the size with which they do, and so is one that isn't there."""
    names = STATE_SIZES.get(fields.model_type)
    if names is None:
        return False
    said = [fields.node.get(name, fields.defaults.values.get(name)) for name in ("hidden_size", *names)]
    hidden, expand, heads, dim, width = (size if isinstance(size, int) else 0 for size in said)
    inner = width or hidden * expand
    return said[3] not in ("auto", None) and inner != heads * dim


LISTS = {"kimi_linear": "linear_attn_config", "lfm2_moe": "layer_types", "step5": "sparse_config"}
NULL_LISTS = {"granitemoehybrid": ("layer_types", "layers_block_type")}
"""Types whose layers are states where no list is there, and nothing where it is null. Asked of vLLM 0.33."""

PATTERNED = ("exaone4", "exaone4_5_text", "exaone_moe")
"""Types whose layers are in a list that nothing else stands for; and those that count by sliding_window_pattern without one, where
that is a number and there is a window. Source: vLLM 0.33 transformers_utils/configs/kimi_linear.py, models/lfm2_moe.py;
transformers 5.19 models/exaone4/configuration_exaone4.py, exaone_moe."""


def _rotates(fields: Fields) -> bool:
    rule = rule_of(fields.model_type)
    return rule.rotates and not (rule.if_stated and fields.node.get("position_embedding_type") != "rope")


def _names_a_whole(fields: Fields) -> bool:
    """Whether a text model's config names a class whose own config has a text model in it."""
    if fields.parents or not fields.defaults.known or fields.defaults.text_key is not None:
        return False
    named = next(iter(class_names(fields.node)), "")
    whole = of_architecture(named)
    return (
        whole is not None
        and whole.text_key is not None
        and whole.model_type != fields.model_type
        and named not in fields.defaults.values.get("architectures", ())
    )


def _part_named(fields: Fields) -> str | None:
    """The type of the text model whose class a whole's config names as its own; None where it names a whole's."""
    outermost = (fields.node, *fields.parents)[-1]
    part = of_architecture(next(iter(class_names(outermost)), ""))
    if part is None or not _has_part(class_defaults(outermost.get("model_type"))) or _has_part(part):
        return None
    return part.model_type


def _has_part(whole: ClassDefaults) -> bool:
    return any(key in whole.values.get("sub_configs", {}) for key in TEXT_KEYS)


def _unlisted(fields: Fields) -> bool:
    node, kind = fields.node, fields.model_type
    if any(name in node and node[name] is None for name in NULL_LISTS.get(kind, ())):
        return True
    if kind in PATTERNED and node.get("layer_types") is None:
        return isinstance(node.get("sliding_window_pattern"), str) or node.get("sliding_window", 1) is None
    return kind in LISTS and node.get(LISTS[kind]) is None


def _scalings(fields: Fields) -> list[Scaling]:
    """What is stated of rotary positions in any object of the config: vLLM looks at the types of all of them.

    Source: vLLM 0.33 transformers_utils/config.py get_config, which calls patch_rope_parameters for each.
    """
    outer = (scaling for node in fields.parents for scaling in of_object(node).values())
    return [*scalings(fields).values(), *outer]


ONE_TYPE = frozenset({("su", "longrope"), ("mrope", "default")})
"""Pairs of an old name and a new one that are one type. Source: vLLM 0.33 transformers_utils/config.py patch_legacy_rope_type."""


def _typed_twice(scaling: Scaling) -> bool:
    if not {"type", "rope_type"} <= scaling.keys():
        return False
    old, new = scaling["type"], scaling["rope_type"]
    return bool(old != new) and (str(old), str(new)) not in ONE_TYPE


def _other_activation(fields: Fields) -> bool:
    found = fields.find("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act")
    return found is not None and isinstance(found[1], str) and found[1].lower() not in COMMON_ACTIVATIONS


def _brings_code(fields: Fields) -> bool:
    found = fields.find("auto_map")
    return (
        found is not None and isinstance(found[1], Mapping) and "AutoConfig" in found[1] and not fields.defaults.known
    )


def _brings_code_beside(fields: Fields) -> bool:
    outermost = (fields.node, *fields.parents)[-1]
    mapped = outermost.get("auto_map")
    return isinstance(mapped, Mapping) and "AutoConfig" in mapped and class_defaults(outermost.get("model_type")).known


def _is_unknown(fields: Fields) -> bool:
    outermost = (fields.node, *fields.parents)[-1]
    return "auto_map" not in outermost and not class_defaults(outermost.get("model_type")).known


def _quantization(fields: Fields) -> Mapping[str, Any]:
    found = fields.shared(*SERVED_BLOCKS)
    return found[1] if found is not None and isinstance(found[1], Mapping) else {}


def _scaled(node: Mapping[str, Any]) -> bool:
    """Source: vLLM 0.33 layers/attention/attention.py, which refuses e5m2 for these."""
    method = node.get("quant_method")
    return method in ("fp8", "modelopt", "quark") or (
        method == "compressed-tensors" and node.get("kv_cache_scheme") is not None
    )


def _ordered(node: Mapping[str, Any]) -> bool:
    """Source: vLLM 0.33 layers/quantization/utils/gptq_utils.py, whose words for it are desc_act and group_size."""
    if node.get("quant_method") != "gptq":
        return False
    rules = node.get("dynamic")
    changes = [each for name, each in rules.items() if not name.startswith("-:")] if isinstance(rules, Mapping) else []
    return any(
        bool(each.get("desc_act", node.get("desc_act"))) and each.get("group_size", node.get("group_size")) != -1
        for each in (node, *changes)
        if isinstance(each, Mapping)
    )
