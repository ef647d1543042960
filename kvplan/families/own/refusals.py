"""Types that can't be answered for, or only with a field that others may leave out."""

from __future__ import annotations

from kvplan.arch.layers import Layer
from kvplan.errors import MissingField, Unsupported
from kvplan.families import standard
from kvplan.families.fields import Fields


def unlike_any(fields: Fields) -> tuple[Layer, ...]:
    """XLNet's memories, Reformer's hashed buckets, xLSTM's matrix memory: kept, but by none of the laws known here.

    Raises: Unsupported.
    """
    raise Unsupported(
        f"{fields.model_type} keeps something between tokens that kvplan doesn't model",
        hint="describe what it keeps in a kvplan YAML, layer group by layer group",
    )


def stated_pattern(fields: Fields) -> tuple[Layer, ...]:
    """MiniMax-Text-01: most layers are linear, and only attn_type_list or layer_types says which.

    Raises: MissingField, BadField, Unsupported.
    """
    if not fields.has("attn_type_list", "layer_types"):
        raise MissingField(
            f"{fields.path}attn_type_list", cause="which layers attend and which keep a state isn't stated"
        )
    return standard.layers(fields)
