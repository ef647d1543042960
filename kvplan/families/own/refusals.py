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


def beside_an_image(fields: Fields) -> tuple[Layer, ...]:
    """BLIP: a decoder of text whose layers keep an image's keys and values too, in the classes that caption.

    Others of its classes attend to a question's tokens or keep nothing. Source: transformers 5.23 models/blip/modeling_blip_text.py,
    whose cross_attention_cache held 577 tokens in each layer for an image of 384 by 384 in patches of 16.

    Raises: Unsupported.
    """
    raise Unsupported(
        f"kvplan doesn't count the cross-attention to image tokens of {fields.model_type}",
        cause="beside the text's, each decoder layer keeps keys and values of the image encoder's output: "
        "(image_size / patch_size)^2 + 1 tokens of vision_config",
        hint="describe it in a kvplan YAML: a layer's attention, and its cross with so many tokens",
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
