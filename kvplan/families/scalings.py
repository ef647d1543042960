"""What a config states of its rotary positions: one scaling, or one for each type of layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.families.fields import Fields

NAMES = ("rope_scaling", "rope_parameters")
"""The old name wins where it says anything.

Source: transformers 5.23 modeling_rope_utils.py convert_rope_params_to_dict, `rope_scaling or self.rope_parameters`; vLLM 0.12
to 0.25 transformers_utils/config.py patch_rope_parameters, with Transformers 4. Before 0.12 vLLM reads rope_scaling alone.
"""

EVERY_LAYER = ""
"""The type of layer under which a scaling of all layers stands."""

Scaling = Mapping[str, Any]


def scalings(fields: Fields) -> Mapping[str, Scaling]:
    """The scalings by type of layer; empty where nothing is stated.

    Only of the object itself: a language model isn't told of what stands beside it.
    """
    for name in NAMES:
        fields.has(name)  # read, whichever of them counts
    return of_object(fields.node)


def of_object(node: Mapping[str, Any]) -> Mapping[str, Scaling]:
    """As `scalings`, of any object of a config. What stands beside scalings of types of layers is of none of them.

    Source: vLLM 0.33 transformers_utils/config.py _patch_hf_transformers_nested_rope_validation.
    """
    stated = next((node[name] for name in NAMES if node.get(name)), None)
    if not isinstance(stated, Mapping):
        return {}
    nested = {str(layer): each for layer, each in stated.items() if isinstance(each, Mapping) and each}
    return nested or {EVERY_LAYER: stated}


def by_layer(node: Mapping[str, Any]) -> bool:
    """Whether an object states its rotary positions by type of layer."""
    stated = next((node[name] for name in NAMES if node.get(name)), None)
    return isinstance(stated, Mapping) and any(isinstance(each, Mapping) for each in stated.values())


USUAL_BASE = 10_000
"""The base that most classes take where none is stated."""


def only_in_parameters(node: Mapping[str, Any]) -> bool:
    """Whether rope_parameters alone scales the rotary positions of an object, or gives them a base of their own."""
    if node.get("rope_scaling") or not node.get("rope_parameters"):
        return False
    base = node.get("rope_theta", USUAL_BASE)
    return any(
        (each.get("rope_type") or each.get("type") or "default") != "default" or each.get("rope_theta", base) != base
        for each in of_object(node).values()
    )
