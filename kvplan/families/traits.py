"""What a config says that only engines branch on."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.families.fields import Fields

IMAGE_PREFIX = "image_prefix"
"""Image tokens attend to each other both ways: use_bidirectional_attention "vision". Source: Gemma 4's config."""


ORDERED = "gptq_order"
"""GPTQ weights whose groups are in the order of activations: desc_act with groups shorter than a row."""


def traits(fields: Fields) -> tuple[str, ...]:
    """Names of the traits that the config states.

    Raises: BadField.
    """
    found = fields.find("use_bidirectional_attention")
    stated = (
        (IMAGE_PREFIX, found is not None and found[1] == "vision"),
        (ORDERED, _ordered(fields)),
    )
    return tuple(name for name, holds in stated if holds)


def _ordered(fields: Fields) -> bool:
    """Source: vLLM 0.33 layers/quantization/utils/gptq_utils.py, whose words for it are desc_act and group_size."""
    found = fields.shared("quantization_config")
    node = found[1] if found is not None else None
    if not isinstance(node, Mapping) or node.get("quant_method") != "gptq":
        return False
    rules = node.get("dynamic")
    changes = (
        (each for pattern, each in rules.items() if not pattern.startswith("-:")) if isinstance(rules, Mapping) else ()
    )
    return any(
        bool(each.get("desc_act", node.get("desc_act"))) and each.get("group_size", node.get("group_size")) != -1
        for each in (node, *changes)
        if isinstance(each, Mapping)
    )
