"""Decoders that attend to an encoder: of text, speech or images."""

from __future__ import annotations

from typing import Any

from kvplan.arch.layers import MOST_LAYERS, CrossAttention, Layer
from kvplan.errors import BadField, MissingField
from kvplan.families import attention, counts, standard
from kvplan.families.attention import Heads
from kvplan.families.fields import Fields


def encoder_decoder(fields: Fields) -> tuple[Layer, ...]:
    """BART, Whisper, T5 and their kin: each decoder layer keeps its own tokens and the encoder's output once.

    The cross cache is priced at the longest encoder input that the config states. Source: arXiv:1706.03762 section 3.2.

    Raises: MissingField, BadField.
    """
    count = fields.need("decoder_layers", "num_decoder_layers", "num_layers")
    if count > MOST_LAYERS:
        raise BadField(f"{fields.path}decoder_layers", count, f"a number of layers up to {MOST_LAYERS}")
    heads = fields.need("decoder_attention_heads", "num_heads", "num_attention_heads")
    width = fields.need("d_model", "hidden_size")
    size = fields.whole("d_kv") or attention.exact_share(fields, width, heads)
    tokens = fields.whole_or_default("max_source_positions", "max_encoder_position_embeddings")
    if tokens is None:
        tokens = fields.whole_or_default("max_position_embeddings", "n_positions")
    if tokens is None:
        raise MissingField(
            f"{fields.path}n_positions",
            cause="the cross-attention cache holds the encoder's output, and nothing says how long that may be",
            hint="add n_positions with the longest input you will serve",
        )
    fields.note(f"cross-attention is priced for the longest encoder output, {tokens} tokens")
    shape = Heads(heads, heads, size, size)
    return (Layer((shape.attention(), shape.cross(tokens))),) * count


ENCODER_KEYS = ("encoder", "text_encoder")


def beside_encoder(fields: Fields) -> tuple[Layer, ...]:
    """T5Gemma, MusicGen, TrOCR: the decoder's own layers, and the encoder's output once in each.

    Priced at the encoder's longest input. Source: transformers 5.23 models/t5gemma/modeling_t5gemma.py.

    Raises: MissingField, BadField, Unsupported.
    """
    key = next(key for key in ENCODER_KEYS if key in fields.parents[0])
    tokens = _encoder_tokens(fields, key, fields.parents[0][key])
    fields.note(f"cross-attention is priced for the longest encoder output, {tokens} tokens")
    cross = attention.heads(fields).cross(tokens)
    return tuple(Layer((*layer.caches, cross), layer.shares_with) for layer in _decoder(fields))


def _decoder(fields: Fields) -> tuple[Layer, ...]:
    """The decoder's own layers, without the cross-attention that another type's reader would price itself."""
    return tuple(
        Layer(tuple(cache for cache in layer.caches if not isinstance(cache, CrossAttention)), layer.shares_with)
        for layer in standard.layers(fields)
    )


def _encoder_tokens(fields: Fields, key: str, encoder: object) -> int:
    """The encoder's longest output: its position table, or the patches of an image and one more."""
    nodes = [encoder, *encoder.values()] if isinstance(encoder, dict) else []
    for node in (node for node in nodes if isinstance(node, dict)):
        for name in ("max_position_embeddings", "n_positions", "max_source_positions"):
            if node.get(name) is not None:
                return fields.as_whole(f"{key}.{name}", node[name])
        if node.get("model_type") in PATCH_ENCODERS and node.get("image_size") and node.get("patch_size"):
            side = fields.as_whole(f"{key}.image_size", node["image_size"]) // fields.as_whole(
                f"{key}.patch_size", node["patch_size"]
            )
            return side * side + 1
    raise MissingField(
        f"{key}.max_position_embeddings",
        cause="the cross-attention cache holds the encoder's output, and nothing says how long that may be",
        hint=f"add max_position_embeddings to {key} with the longest input you will serve",
    )


PATCH_ENCODERS = ("vit", "deit", "beit")
"""Encoders that turn an image into (image_size / patch_size)^2 tokens and one for the class."""


def image_cross_attention(fields: Fields) -> tuple[Layer, ...]:
    """Llama 3.2 Vision: cross_attention_layers keep an image's keys and values and none of the text's.

    Tokens of one image: tiles x ((image_size / patch_size)^2 + 1). Source: transformers 5.23 models/mllama.

    Raises: MissingField, BadField.
    """
    count = counts.layer_count(fields)
    chosen = fields.wholes("cross_attention_layers")
    if chosen is None:
        chosen = _by_class(fields, "cross_attention_layers")
    shape = attention.heads(fields)
    image, own = Layer((shape.cross(_image_tokens(fields)),)), Layer((shape.attention(),))
    return tuple(image if layer in chosen else own for layer in range(count))


def _by_class(fields: Fields, name: str) -> tuple[int, ...]:
    """Layer numbers that the type's class fills in.

    Raises: MissingField.
    """
    numbers = fields.defaults.numbers(name)
    if numbers is None:
        raise MissingField(fields.path + name)
    fields.note_default(name, list(numbers))
    return numbers


def _image_tokens(fields: Fields) -> int:
    vision: dict[str, Any] = next(
        (parent["vision_config"] for parent in fields.parents if isinstance(parent.get("vision_config"), dict)), {}
    )
    sizes = {}
    for name, default in (("image_size", 448), ("patch_size", 14), ("max_num_tiles", 4)):
        if vision.get(name) is None:
            fields.note_default(f"vision_config.{name}", default, "transformers 5.23 MllamaVisionConfig")
        sizes[name] = fields.as_whole(f"vision_config.{name}", default if vision.get(name) is None else vision[name])
    tokens = sizes["max_num_tiles"] * ((sizes["image_size"] // sizes["patch_size"]) ** 2 + 1)
    fields.note(
        f"cross-attention is priced for one image of {sizes['max_num_tiles']} tiles, {tokens} tokens; text alone keeps none"
    )
    return tokens
