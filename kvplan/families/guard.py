"""Unknown model types are read by their fields, and refused when a field that nobody read speaks of the cache."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.arch.layers import Layer, Recurrent
from kvplan.errors import BadField, Unsupported
from kvplan.families.fields import Fields
from kvplan.families.weights.symbols import SPELLINGS

SPEAKS_OF_THE_CACHE = re.compile("|".join((
    "window", "chunk", "sparse", "compress", "latent", "lora_rank", "kv_shar", r"shar\w*_kv", "(^|_)cla(_|$)", "yoco",
    "linear_attn", "linear_num", "(^|_)conv", "short_conv", "ssm", "mamba", "state_size", "recurren", "retention", "delta",
    "rwkv", "expand_k", "expand_v", "expand_ratio", "use_g[kv]", "feature_map",
    "(^|_)kv_", "_kv(_|$)", r"(attention|query|head|kv)\w*_groups?", "multi_query", "groups?_num", "layer_group",
    "cache", "index_", "hybrid", "block_type", "layer_types", "attn_type", "attention_type", "attn_layer",
    "attention_pattern", "attn_pattern", "(^|_)sinks?(_|$)", "memory", "local_attn", "global_attn",
)))  # fmt: skip
"""Names of fields that change what a layer keeps, in every config seen so far."""

PASSES = re.compile("|".join((
    r"(^|_)(h|l|n|num)_cycles(_|$)", r"(^|_)loops?(_|$)", "recurs", "recurren", "ut_steps", "unroll", "(^|_)num_passes",
    "((^|_)num|layers?|blocks?|stack)_repeats?(_|$)",
)), re.IGNORECASE)  # fmt: skip
"""Names of fields that say how often layers are gone through, each time with a cache of its own; 1 changes nothing."""

HARMLESS = frozenset((
    "use_cache", "cache_implementation", "kv_cache_scheme", "chunk_size_feed_forward", "attn_implementation",
    "decoder_sparse_step", "sparse_router", "mlp_layer_types", "moe_latent_size",
    "q_lora_rank", "o_lora_rank", "index_n_heads", "index_topk", "index_share_for_mtp_iteration", "qk_head_dim",
    "conv_bias", "use_conv_bias", "chunk_size", "mamba_chunk_size", "use_mamba_kernels", "seconds_per_chunk",
    "attention_sink_bias", "add_swa_attention_sink_bias", "add_full_attention_sink_bias",
    "max_window_layers", "use_sliding_window", "sliding_window_size", "attention_chunk_size",
    "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers", "full_attention_interval",
    "spatial_conv_size", "temporal_conv_size",
    "kv_cache_dtype", "sparse_config", "num_query_groups", "share_q_dim", "no_rope_layer_interval", "mtp_layers_block_type", "mtp_hybrid_override_pattern",
))  # fmt: skip
"""Names that match but change no cache (experts, routers, kernels, biases, images), or that a list read before them overrules."""


KERNELS = ("blocksparse_", "dense_attention_every")
"""Beginnings of names that choose what a kernel reads, of a cache that stays whole (Phi-3-small)."""


HEAD_COUNTS = re.compile(r"(key_value|kv)_heads_\w|heads_per_layer")
"""Names beyond num_key_value_heads that change how many heads are kept, layer by layer."""


def refuse_unread(fields: Fields, *, own_reader: bool) -> None:
    """Refuse a config that holds a field about the cache which nothing read.

    Types that the reference implementation knows are trusted with fields of their classes, which the readers were checked
    against; a head count that no class knows is refused there too. own_reader: the type has a reader of its own, which
    knows what its heads are.

    Raises: Unsupported.
    """
    speaks = HEAD_COUNTS if fields.defaults.known else SPEAKS_OF_THE_CACHE
    if (
        not fields.defaults.known
        and not own_reader
        and fields.has("num_heads")
        and not fields.has("num_attention_heads", "n_head", "n_heads", "num_key_value_heads")
    ):
        raise Unsupported(
            f"{fields.path}num_heads alone doesn't say what heads of {fields.model_type or 'this model'} keep",
            cause="linear attention and state space models name their heads so, and they keep no keys and values",
            hint="describe the model in a kvplan YAML, layer group by layer group",
        )
    for name, value in fields.node.items():
        if name in fields.ledger.read or name in HARMLESS or _says_nothing(value):
            continue
        if (
            (speaks.search(name) or (PASSES.search(name) and (value != 1 or value is True)))
            and not _of_the_class(fields, name)
            and not name.startswith(KERNELS)
            and "rope" not in name
        ):
            raise Unsupported(
                f"{fields.path}{name} isn't understood for model type {fields.model_type or '(none)'!r}",
                cause="its name says that it changes what a layer keeps, and kvplan won't guess how",
                hint="describe the model in a kvplan YAML, layer group by layer group",
            )


def _says_nothing(value: object) -> bool:
    """Whether a value switches off what its name speaks of: nothing, or an object that says so itself."""
    off = isinstance(value, Mapping) and any(value.get(switch) is False for switch in SWITCHES)
    return off or value is None or value is False or value in (0, "", [], {})


SWITCHES = ("enabled", "enable", "use")
"""What an object of a config calls its own switch."""


MLP_WIDTHS = SPELLINGS["I"]
EXPERTS = SPELLINGS["E"]


def refuse_no_mlp(fields: Fields, layers: tuple[Layer, ...]) -> None:
    """Refuse an MLP of width 0 where every layer has one: a dense model of attention layers alone.

    Blocks that say their own width, experts and recurrent layers may do without.

    Raises: BadField.
    """
    found = fields.find(*MLP_WIDTHS)
    if found is None or isinstance(found[1], bool) or found[1] != 0:
        return
    recurrent = any(isinstance(cache, Recurrent) for layer in layers for cache in layer.caches)
    if recurrent or fields.has("block_configs", "per_layer_config", *EXPERTS):
        return
    raise BadField(fields.path + found[0], found[1], "a positive whole number", cause="each layer's MLP has this width")


def _of_the_class(fields: Fields, name: str) -> bool:
    values = fields.defaults.values
    return name in values or name in values.get("kwargs", {}) or name in fields.defaults.spellings
