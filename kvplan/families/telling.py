"""What the names of a config's fields tell of the cache, where no reader knows them."""

from __future__ import annotations

import re
from collections.abc import Mapping

SPEAKS_OF_THE_CACHE = re.compile("|".join((
    "window", "chunk", "sparse", "compress", "latent", "lora_rank", "kv_shar", r"shar\w*_kv", "(^|_)cla(_|$)", "yoco",
    "linear_attn", "linear_num", "(^|_)conv", "short_conv", "ssm", "mamba", "state_size", "recurren", "retention", "delta",
    "rwkv", "expand_k", "expand_v", "expand_ratio", "use_g[kv]", "feature_map",
    "(^|_)kv_", "_kv(_|$)", r"(attention|query|head|kv)\w*_groups?", "multi_query", "groups?_num", "layer_group",
    "cache", "index_", "hybrid", "block_type", "layer_types", "attn_type", "attention_type", "attn_layer",
    "attention_pattern", "attn_pattern", "(^|_)sinks?(_|$)", "memory", "local_attn", "global_attn",
    "(^|_)mixer", "layers_type", "layers?_pattern", "(local|global|full|linear|recurrent)_layers",
    "(^|_)(kda|gdn|gla|swa|nsa|dsa|csa|mla|rnn)(_|$)",
)))  # fmt: skip
"""Names of fields that change what a layer keeps, in every config seen so far."""

PASSES = re.compile("|".join((
    r"(^|_)(h|l|n|num)_cycles(_|$)", r"(^|_)loops?(_|$)", "recurs", "recurren", "ut_steps", "unroll", "(^|_)num_passes",
    "((^|_)num|layers?|blocks?|stack|sharing)_repeats?(_|$)", "(^|_)layer_sharing$",
)), re.IGNORECASE)  # fmt: skip
"""Names of fields that say how often layers are gone through, each time with a cache of its own; 1 changes nothing."""

WIDTHS = re.compile(
    "^("
    "d_head|dim_head|dim_per_head|head_size|head_width|attention_head_size|attn_head_size|attn_head_dim|attention_head_width|"
    "hidden_(size_)?per_head|(size|channels|dim)_per_head|per_head_dim|(q|k|v|qk|query|key|value)_(head_)?(dim|size|width)|"
    "d_(k|v|qk)|(attention|attn)_(projection|proj|hidden|inner)_(size|dim|width)|(attention|attn)_(dim|width)"
    ")$"
)
"""Names beside those of attention.py for elements of a head's key or value, or of all heads'."""

OF_SOMETHING_ELSE = re.compile(
    "mlp|moe|ffn|feed_forward|intermediate|expert|rope|rotary|theta|norm|scal|bias|activation|dropout|label|"
    "token_ids?$|^target_|architectures|grid_pinpoints|(^|_)(aux|init|std|eps|lr|multipliers?)(_|$)"
)
"""Names of fields that tell layers apart by what they keep nothing of."""

HARMLESS = frozenset((
    "use_cache", "cache_implementation", "kv_cache_scheme", "kv_cache_dtype", "chunk_size_feed_forward", "seconds_per_chunk",
    "decoder_sparse_step", "sparse_router", "mlp_layer_types", "moe_latent_size", "q_lora_rank", "o_lora_rank",
    "conv_bias", "use_conv_bias", "mamba_chunk_size", "use_mamba_kernels", "spatial_conv_size", "temporal_conv_size",
    "attention_sink_bias", "add_swa_attention_sink_bias", "add_full_attention_sink_bias",
    "max_window_layers", "use_sliding_window", "sliding_window_pattern", "_sliding_window_pattern",
    "global_attn_every_n_layers", "attention_chunk_size",
    "mtp_layers_block_type", "mtp_hybrid_override_pattern",
))  # fmt: skip
"""Names that match but change no cache (experts, routers, kernels, biases, images), or that a list read before them overrules."""

BESIDE: Mapping[str, tuple[str, ...]] = {
    "chunk_size": ("mamba_d_state", "ssm_state_size", "state_size", "linear_num_value_heads", "linear_attn_config"),
    "index_n_heads": ("index_head_dim",),
    "index_share_for_mtp_iteration": ("index_head_dim",),
    "index_topk": ("index_head_dim",),
    "num_query_groups": ("num_kv_heads", "num_key_value_heads"),
}
"""Names that change no cache where one of these fields says what they are of; alone they may mean anything."""

KERNELS = ("blocksparse_", "dense_attention_every")
"""Beginnings of names that choose what a kernel reads, of a cache that stays whole (Phi-3-small)."""

HEAD_COUNTS = re.compile(r"(key_value|kv)_heads_\w|heads_per_layer")
"""Names beyond num_key_value_heads that change how many heads are kept, layer by layer."""

SWITCHES = ("enabled", "enable")
"""What an object of a config calls its own switch."""
