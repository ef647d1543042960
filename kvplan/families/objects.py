"""The nested objects of a config that are read, and their types: one of another type would count as absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.errors import BadField
from kvplan.families import typed
from kvplan.families.defaults import class_defaults
from kvplan.families.scalings import NAMES as ROPES
from kvplan.families.spellings import BLOCKS, ORIGINAL, SERVED_BLOCKS

OBJECTS = frozenset((
    "text_config", "llm_config", "language_config", "llm_cfg", "thinker_config", "vision_config", "audio_config", "encoder_config",
    "attn_config", "ffn_config", "ssm_cfg", "linear_attn_config", "sparse_attention_config", "per_layer_config", "eagle_config",
    "dflash_config", "img_token_compression_config", *ROPES, *SERVED_BLOCKS,
))  # fmt: skip
"""Names of objects of any model. A class's own, such as T5Gemma's decoder, are in class_defaults.json: elsewhere such a word may
be a name."""


def _bases(path: str, value: object) -> None:
    """A base of rotary positions, or one for each layer: a number that powers are taken of."""
    for base in value if isinstance(value, list) else (value,):
        if isinstance(base, bool) or not isinstance(base, int | float):
            raise BadField(path, value, "a number", hint="write it without quotes" if isinstance(base, str) else None)


WORDS: Mapping[str, Callable[[str, object], object]] = {
    "model_type": typed.text, "architectures": typed.items, "rope_theta": _bases,
}  # fmt: skip
"""What says of an object whose it is; and the base of its rotary positions, which no reader asks for."""

SCALING = ("rope_type", "type", "rope_theta", "factor")
"""Fields of a scaling, one of which each has: an object without any is none of a type of layer's."""


def refuse_others(node: Mapping[str, Any], path: str = "") -> None:
    """Refuse what stands where an object is read and isn't one, here and in the objects below.

    Raises: BadField.
    """
    own = class_defaults(node.get("model_type")).values.get("sub_configs", {})
    for name, value in node.items():
        if value is None:
            continue
        if name in OBJECTS or name in own:
            typed.table(path + name, value)
        elif name in WORDS:
            WORDS[name](path + name, value)
        if isinstance(value, Mapping) and name in ROPES:
            _refuse_scaling(value, f"{path}{name}.")
        elif isinstance(value, Mapping) and name not in BLOCKS:
            refuse_others(value, f"{path}{name}.")


def _refuse_scaling(scaling: Mapping[str, Any], path: str) -> None:
    """Refuse a scaling of rotary positions, or one among those of types of layers, whose words and lengths are neither.

    Raises: BadField.
    """
    for name, value in scaling.items():
        if value is None:
            continue
        if name in _SCALING:
            _SCALING[name](path + name, value)
        elif name.endswith("_attention") or isinstance(value, Mapping):
            inner = typed.table(path + name, value)
            if inner and inner.keys().isdisjoint(SCALING):
                raise BadField(path + name, value, f"a type of layer's scaling, which has one of {', '.join(SCALING)}")
            _refuse_scaling(inner, f"{path}{name}.")


_SCALING: Mapping[str, Callable[[str, object], object]] = {
    "rope_type": typed.text,
    "type": typed.text,
    ORIGINAL: typed.whole,
    "partial_rotary_factor": typed.positive,
    "rope_theta": _bases,
    "mrope_section": typed.items,
}
"""Fields of a scaling that decide on sizes. Its factor is read where it is used, and engines refuse what isn't a number."""
