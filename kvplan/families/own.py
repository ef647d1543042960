"""Model types that say the same things their own way. Each is one function from fields to layers.

A type is here only where its fields can't be told from another type's with a different meaning.
"""

from __future__ import annotations

from typing import Any

from kvplan.arch.layers import FP32, Attention, CrossAttention, Layer, Recurrent, StateTensor
from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.families import attention, patterns, recurrent, standard
from kvplan.families.attention import Heads
from kvplan.families.fields import Fields
from kvplan.families.latent import latent_layers


def flagged_heads(fields: Fields) -> tuple[Layer, ...]:
    """Falcon, GPT-BigCode, ChatGLM: the KV head count hangs on a flag.

    new_decoder_architecture -> num_kv_heads; multi_query -> 1; multi_query_attention -> multi_query_group_num; else one
    per query head. Source: transformers 5.23 models/falcon, models/gpt_bigcode; THUDM modeling_chatglm.py.

    Raises: MissingField, BadField.
    """
    count = patterns.layer_count(fields)
    queries = attention.query_heads(fields)
    if queries is None:
        raise MissingField(f"{fields.path}num_attention_heads")
    kv = attention.grouped(fields, queries, _flagged_kv_heads(fields, queries), "num_kv_heads")
    k_dim = attention.head_dim(fields, queries)
    return (Layer((Heads(queries, kv, k_dim, k_dim).attention(),)),) * count


def _flagged_kv_heads(fields: Fields, queries: int) -> int:
    stated = fields.whole("num_kv_heads", "n_head_kv", "num_key_value_heads")
    if fields.find("new_decoder_architecture") and fields.flag("new_decoder_architecture"):
        return stated or queries
    if fields.find("multi_query_attention") is not None:
        return fields.need("multi_query_group_num") if fields.flag("multi_query_attention") else queries
    if fields.find("n_head_kv") is not None and stated:
        return stated
    return 1 if fields.flag("multi_query") else queries


def block_configs(fields: Fields) -> tuple[Layer, ...]:
    """Nemotron-NAS, DeciLM: each block says its own attention, or that it has none.

    kv_heads = num_attention_heads / n_heads_in_group; no_op and replace_with_linear keep nothing.
    Source: nvidia/Llama-3_3-Nemotron-Super-49B-v1 modeling_decilm.py.

    Raises: MissingField, BadField.
    """
    blocks = fields.items("block_configs") or ()
    count = patterns.layer_count(fields)
    if len(blocks) != count:
        raise BadField(f"{fields.path}block_configs", f"a list of {len(blocks)}", f"a list of {count}, one a layer")
    queries = attention.query_heads(fields)
    if queries is None:
        raise MissingField(f"{fields.path}num_attention_heads")
    size = attention.head_dim(fields, queries)
    return tuple(_block(fields, index, queries, size) for index in range(count))


def _block(fields: Fields, index: int, queries: int, size: int) -> Layer:
    blocks = fields.items("block_configs") or ()
    block = blocks[index].get("attention") if isinstance(blocks[index], dict) else None
    if not isinstance(block, dict):
        raise MissingField(f"{fields.path}block_configs[{index}].attention")
    if block.get("no_op") or block.get("replace_with_linear"):
        return Layer()
    name = f"block_configs[{index}].attention.n_heads_in_group"
    group = block.get("n_heads_in_group")
    if group is None:
        raise MissingField(fields.path + name)
    shared = fields.as_whole(name, group)
    if queries % shared:
        raise BadField(fields.path + name, shared, f"a divisor of the {queries} query heads")
    window, sinks = block.get("window_length"), block.get("num_sink_tokens")
    return Layer((
        Attention(
            queries, queries // shared, size, size,
            window=None if window is None else fields.as_whole("window_length", window),
            sinks=0 if sinks is None else fields.as_whole("num_sink_tokens", sinks, least=0),
        ),
    ))  # fmt: skip


PER_LAYER_KV_HEADS = ("num_kv_heads", "num_key_value_heads", "num_key_value_heads_per_layer")


def listed_heads(fields: Fields) -> tuple[Layer, ...]:
    """OpenELM, DeciLM: KV heads listed layer by layer; 0 is a layer without attention.

    Source: apple/OpenELM configuration_openelm.py; Deci/DeciLM-7B configuration_decilm.py.

    Raises: MissingField, BadField.
    """
    count = patterns.layer_count(fields)
    found = next(
        (pair for name in PER_LAYER_KV_HEADS if (pair := fields.find(name)) and isinstance(pair[1], list)), None
    )
    kv = fields.wholes(found[0]) if found else None
    if kv is None or len(kv) != count:
        raise BadField(f"{fields.path}num_kv_heads", list(kv or ()), f"a list of {count}, one a layer")
    queries = fields.wholes("num_query_heads") or (attention.query_heads(fields),) * count
    size = fields.whole("head_dim") or attention.head_dim(fields, queries[0])
    return tuple(
        Layer((Attention(heads, own, size, size),)) if own else Layer() for heads, own in zip(queries, kv, strict=True)
    )


def doubled_layers(fields: Fields) -> tuple[Layer, ...]:
    """LongCat-Flash: each of num_layers blocks holds two latent attentions.

    Source: transformers 5.23 models/longcat_flash, num_hidden_layers = 2 x num_layers.

    Raises: MissingField, BadField.
    """
    return latent_layers(fields, 2 * patterns.layer_count(fields))


def zamba(fields: Fields) -> tuple[Layer, ...]:
    """Zamba 2: Mamba-2 in every layer, shared attention over twice the width on "hybrid" ones.

    head size = 2 x hidden_size / heads unless attention_head_dim says it. Source: transformers 5.23 models/zamba2.

    Raises: MissingField, BadField, Unsupported.
    """
    count = patterns.layer_count(fields)
    heads = fields.need("num_attention_heads")
    size = fields.whole("attention_head_dim")
    if size is None:
        size = attention.exact_share(fields, 2 * fields.need("hidden_size"), heads)
    kv = fields.whole("num_key_value_heads") or heads
    state = recurrent.mamba2(fields) if fields.has("mamba_ngroups", "mamba_headdim") else _zamba_state(fields)
    both = Layer((Attention(heads, kv, size, size), state))
    return tuple(
        both if kind in (patterns.BOTH, patterns.FULL) else Layer((state,)) for kind in _zamba_kinds(fields, count)
    )


def _zamba_kinds(fields: Fields, count: int) -> tuple[str, ...]:
    """Listed, or Zamba's own: two states and a hybrid first, then a hybrid where i % attn_layer_period == offset."""
    if fields.has("layers_block_type", "layer_types") or fields.defaults.value("attn_layer_period") is None:
        return patterns.kinds(fields, count)
    period = fields.need("attn_layer_period")
    offset = fields.whole("attn_layer_offset", least=0)
    start = int(fields.default("attn_layer_offset") or 0) if offset is None else offset  # type: ignore[call-overload]
    rest = (patterns.BOTH if index % period == start else patterns.STATE for index in range(count - 3))
    return (patterns.STATE, patterns.STATE, patterns.BOTH, *rest)[:count]


def _zamba_state(fields: Fields) -> Recurrent:
    """Mamba-2 where the class has groups, Mamba-1 where it has none."""
    return recurrent.mamba2(fields) if fields.defaults.value("mamba_ngroups") else recurrent.mamba(fields)


def griffin(fields: Fields) -> tuple[Layer, ...]:
    """RecurrentGemma: a cycle of gated linear recurrences and local attention.

    lru_width in fp32, and a convolution. Source: arXiv:2402.19427; transformers 5.23 models/recurrent_gemma.

    Raises: MissingField, BadField, Unsupported.
    """
    count = patterns.layer_count(fields)
    inner = fields.whole("lru_width") or fields.need("hidden_size")
    tensors = (
        StateTensor("shift", fields.need("conv1d_width") - 1, ((inner, 1),)),
        StateTensor("recurrent", 1, ((inner, 1),), usual=FP32),
    )
    state = Layer((Recurrent("gated linear recurrence", tensors, "Griffin, arXiv:2402.19427"),))
    local = Layer((attention.heads(fields).attention(window=fields.need("attention_window_size")),))
    return tuple(local if kind == patterns.FULL else state for kind in _cycle(fields, count))


def _cycle(fields: Fields, count: int) -> tuple[str, ...]:
    if fields.has("block_types", "_block_types", "layers_block_type", "layer_types"):
        return patterns.kinds(fields, count)
    cycle = fields.default("block_types")
    if not isinstance(cycle, list):
        raise MissingField(f"{fields.path}block_types")
    return tuple(patterns.WORDS[cycle[layer % len(cycle)]] for layer in range(count))


def rwkv(fields: Fields) -> tuple[Layer, ...]:
    """RWKV 5, 6, 7: a matrix of head_size^2 per head in fp32, and the last token's vector for each of two mixers.

    RWKV 4 keeps three vectors of attention_hidden_size instead. Source: arXiv:2404.05892; transformers 5.23 models/rwkv.

    Raises: MissingField, BadField.
    """
    count = patterns.layer_count(fields)
    hidden = fields.need("hidden_size")
    inner = fields.whole("attention_hidden_size", "dim_att") or hidden
    size = fields.whole("head_size", "head_dim")
    shift = StateTensor("shift", 2, ((hidden, 1),))
    if size is None:
        state = StateTensor("recurrent", 3, ((inner, 1),), usual=FP32)
    else:
        state = StateTensor("recurrent", 1, ((attention.exact_share(fields, inner, size), size * size),), usual=FP32)
    return (Layer((Recurrent("rwkv", (shift, state), "Eagle and Finch, arXiv:2404.05892"),)),) * count


_FLA = "flash-linear-attention: fla/layers, recurrent state in fp32"


def fla_delta_net(fields: Fields) -> tuple[Layer, ...]:
    """flash-linear-attention's (gated) delta net: heads x head_dim x (expand_v x head_dim), three convolutions.

    Raises: MissingField, BadField.
    """
    heads = fields.need("num_heads")
    k_dim = fields.whole("head_dim") or attention.exact_share(fields, fields.need("hidden_size"), heads)
    v_heads = fields.whole("num_v_heads") or heads
    v_dim = int(k_dim * (fields.ratio("expand_v") or 1))
    state = StateTensor("recurrent", 1, ((v_heads, k_dim * v_dim),), usual=FP32)
    conv = StateTensor("conv", fields.need("conv_size") - 1, ((heads, 2 * k_dim), (v_heads, v_dim)))
    short = fields.find("use_short_conv") is None or fields.flag("use_short_conv")
    tensors = (conv, state) if short else (state,)
    return _with_attention(fields, Layer((Recurrent("gated delta net", tensors, _FLA),)))


def fla_linear(fields: Fields) -> tuple[Layer, ...]:
    """flash-linear-attention's gated linear attention: heads x (expand_k x hidden / heads) x (expand_v x hidden / heads).

    Raises: MissingField, BadField.
    """
    hidden, heads = fields.need("hidden_size"), fields.need("num_heads")
    sizes = []
    for name in ("expand_k", "expand_v"):
        ratio = fields.ratio(name)
        if ratio is None:
            raise MissingField(f"{fields.path}{name}")
        sizes.append(attention.exact_share(fields, int(hidden * ratio), heads))
    tensors = [StateTensor("recurrent", 1, ((heads, sizes[0] * sizes[1]),), usual=FP32)]
    if fields.find("use_short_conv") and fields.flag("use_short_conv"):
        tensors.insert(0, StateTensor("conv", fields.need("conv_size") - 1, ((heads, 2 * sizes[0] + sizes[1]),)))
    return _with_attention(fields, Layer((Recurrent("gated linear attention", tuple(tensors), _FLA),)))


def hgrn2(fields: Fields) -> tuple[Layer, ...]:
    """HGRN 2: heads x expand_ratio x value size.

    Source: arXiv:2404.07904; flash-linear-attention fla/layers/hgrn2.py.

    Raises: MissingField, BadField.
    """
    hidden, expand = fields.need("hidden_size"), fields.need("expand_ratio")
    heads = fields.whole("num_heads") or attention.exact_share(fields, hidden, expand)
    v_dim = attention.exact_share(fields, hidden, heads)
    tensors = [StateTensor("recurrent", 1, ((heads, expand * v_dim),), usual=FP32)]
    if fields.find("use_short_conv") and fields.flag("use_short_conv"):
        tensors.insert(0, StateTensor("conv", fields.need("conv_size") - 1, ((heads, 2 * expand + v_dim),)))
    return _with_attention(fields, Layer((Recurrent("hgrn2", tuple(tensors), _FLA),)))


def fla_mamba(fields: Fields) -> tuple[Layer, ...]:
    """flash-linear-attention's Samba: Mamba layers, and window attention on attn.layers.

    Raises: MissingField, BadField.
    """
    return _with_attention(fields, Layer((recurrent.mamba(fields),)))


def _with_attention(fields: Fields, state: Layer) -> tuple[Layer, ...]:
    """attn.layers name the layers that attend instead, in a window of attn.window_size when it is stated."""
    count = patterns.layer_count(fields)
    attn = fields.child("attn")
    if attn is None:
        return (state,) * count
    chosen = attn.wholes("layers") or ()
    heads = attn.need("num_heads")
    kv = attn.whole("num_kv_heads") or heads
    size = attn.whole("head_dim") or attention.exact_share(fields, fields.need("hidden_size"), heads)
    own = Layer((Attention(heads, kv, size, size, window=attn.whole("window_size")),))
    return tuple(own if layer in chosen else state for layer in range(count))


def encoder_decoder(fields: Fields) -> tuple[Layer, ...]:
    """BART, Whisper, T5 and their kin: each decoder layer keeps its own tokens and the encoder's output once.

    The cross cache is priced at the longest encoder input that the config states. Source: arXiv:1706.03762 section 3.2.

    Raises: MissingField, BadField.
    """
    count = fields.need("decoder_layers", "num_decoder_layers", "num_layers")
    if count > patterns.MOST_LAYERS:
        raise BadField(f"{fields.path}decoder_layers", count, f"a number of layers up to {patterns.MOST_LAYERS}")
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
    count = patterns.layer_count(fields)
    chosen = fields.wholes("cross_attention_layers")
    if chosen is None:
        default = fields.default("cross_attention_layers")
        chosen = tuple(default) if isinstance(default, list) else ()
    shape = attention.heads(fields)
    image, own = Layer((shape.cross(_image_tokens(fields)),)), Layer((shape.attention(),))
    return tuple(image if layer in chosen else own for layer in range(count))


def _image_tokens(fields: Fields) -> int:
    vision: dict[str, Any] = next(
        (parent["vision_config"] for parent in fields.parents if isinstance(parent.get("vision_config"), dict)), {}
    )
    sizes = {}
    for name, default in (("image_size", 448), ("patch_size", 14), ("max_num_tiles", 4)):
        if vision.get(name) is None:
            fields.note_default(f"vision_config.{name}", default, "transformers 5.23 MllamaVisionConfig")
        sizes[name] = fields.as_whole(f"vision_config.{name}", vision.get(name) or default)
    tokens = sizes["max_num_tiles"] * ((sizes["image_size"] // sizes["patch_size"]) ** 2 + 1)
    fields.note(
        f"cross-attention is priced for one image of {sizes['max_num_tiles']} tiles, {tokens} tokens; text alone keeps none"
    )
    return tokens


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


def state_space_package(fields: Fields) -> tuple[Layer, ...]:
    """Configs of the mamba_ssm package: d_model, n_layer, and ssm_cfg for what differs from its defaults.

    Mamba: d_state 16, d_conv 4, expand 2. Mamba2: d_state 128, headdim 64, ngroups 1.
    Source: github.com/state-spaces/mamba mamba_ssm/modules/mamba_simple.py, mamba2.py.

    Raises: MissingField, BadField, Unsupported.
    """
    attending = fields.find("attn_layer_idx")
    if attending is not None and attending[1]:
        raise Unsupported(
            f"{fields.path}attn_layer_idx: attention between state space layers isn't read from this format"
        )
    ssm = fields.child("ssm_cfg")
    given = dict(ssm.node) if ssm else {}
    second = given.get("layer") == "Mamba2"
    usual = {"d_state": 128, "headdim": 64, "ngroups": 1} if second else {"d_state": 16}
    filled = {"d_conv": 4, "expand": 2, **usual, **given}
    for name in (name for name in filled if name not in given):
        fields.note_default(f"ssm_cfg.{name}", filled[name], "mamba_ssm's own default")
    size = {name: fields.as_whole(f"ssm_cfg.{name}", filled[name]) for name in ("d_state", "d_conv", "expand")}
    inner = size["expand"] * fields.need("d_model")
    if not second:
        tensors = (
            StateTensor("conv", size["d_conv"] - 1, ((inner, 1),)),
            StateTensor("recurrent", 1, ((inner, size["d_state"]),)),
        )
        law = Recurrent("mamba", tensors, "arXiv:2312.00752")
    else:
        head, groups = (
            fields.as_whole("ssm_cfg.headdim", filled["headdim"]),
            fields.as_whole("ssm_cfg.ngroups", filled["ngroups"]),
        )
        heads = attention.exact_share(fields, inner, head)
        conv = StateTensor("conv", size["d_conv"] - 1, ((heads, head), (groups, 2 * size["d_state"])))
        tensors = conv, StateTensor("recurrent", 1, ((heads, head * size["d_state"]),))
        law = Recurrent("mamba2", tensors, "arXiv:2405.21060")
    return (Layer((law,)),) * patterns.layer_count(fields)
