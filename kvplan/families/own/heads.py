"""Types whose head counts hang on flags, blocks or lists."""

from __future__ import annotations

from kvplan.arch.layers import Attention, Layer
from kvplan.errors import BadField, MissingField
from kvplan.families import attention, counts, typed
from kvplan.families.attention import Heads
from kvplan.families.fields import Fields
from kvplan.families.latent import latent_layers


def flagged_heads(fields: Fields) -> tuple[Layer, ...]:
    """Falcon, GPT-BigCode, ChatGLM: the KV head count hangs on a flag.

    new_decoder_architecture -> num_kv_heads; multi_query -> 1; multi_query_attention -> multi_query_group_num; else one
    per query head. Source: transformers 5.23 models/falcon, models/gpt_bigcode; THUDM modeling_chatglm.py.

    Raises: MissingField, BadField.
    """
    count = counts.layer_count(fields)
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
    count = counts.layer_count(fields)
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
    for name in ("no_op", "replace_with_linear"):
        if block.get(name) is not None and typed.switch(
            f"{fields.path}block_configs[{index}].attention.{name}", block[name]
        ):
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
    count = counts.layer_count(fields)
    found = next(
        (pair for name in PER_LAYER_KV_HEADS if (pair := fields.find(name)) and isinstance(pair[1], list)), None
    )
    kv = fields.wholes(found[0]) if found else None
    if kv is None or len(kv) != count:
        name = found[0] if found else PER_LAYER_KV_HEADS[0]
        raise BadField(fields.path + name, list(kv or ()), f"a list of {count}, one a layer")
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
    single = latent_layers(fields, 2 * _blocks(fields))
    return tuple(
        Layer((*first.caches, *second.caches)) for first, second in zip(single[::2], single[1::2], strict=True)
    )


def _blocks(fields: Fields) -> int:
    """Blocks of two: num_layers, or half of num_hidden_layers, whose setter sets the other one.

    Raises: BadField where they contradict each other: which one counts depends on the order of their keys.
    """
    blocks, halves = fields.whole("num_layers"), fields.whole("num_hidden_layers")
    if halves is None:
        return counts.layer_count(fields)
    if halves % 2 or blocks not in (None, halves // 2):
        raise BadField(
            f"{fields.path}num_hidden_layers", halves, f"2 x num_layers ({blocks})" if blocks else "an even number",
            cause=f"the class of {fields.model_type} builds num_hidden_layers / 2 blocks of two layers where it is stated",
            hint="leave num_hidden_layers out, and state num_layers",
        )  # fmt: skip
    return halves // 2
