"""Unknown model types are read by their fields, and refused when a field that nobody read speaks of the cache."""

from __future__ import annotations

import re

from kvplan.errors import Unsupported
from kvplan.families.fields import Fields

SPEAKS_OF_THE_CACHE = re.compile(
    r"window|chunk|sparse|compress|latent|lora_rank|kv_shar|shar\w*_kv|(^|_)cla(_|$)|linear_attn|linear_num|(^|_)conv|ssm|"
    r"mamba|state_size|recurren|(^|_)kv_|_kv(_|$)|cache|index_|hybrid|block_type|layer_types|attn_type|attention_type|"
    r"(attention|query|head|kv)\w*_groups?|multi_query|groups?_num|layer_group|attn_layer|attention_pattern|attn_pattern|(^|_)sinks?(_|$)|memory|yoco|retention|delta|rwkv|local_attn|global_attn",
)
"""Names of fields that change what a layer keeps, in every config seen so far."""

HARMLESS = frozenset((
    "use_cache", "cache_implementation", "kv_cache_scheme", "chunk_size_feed_forward", "attn_implementation",
    "decoder_sparse_step", "sparse_router", "mlp_layer_types", "moe_latent_size",
    "q_lora_rank", "o_lora_rank", "index_n_heads", "index_topk", "index_share_for_mtp_iteration", "qk_head_dim",
    "conv_bias", "use_conv_bias", "chunk_size", "mamba_chunk_size", "use_mamba_kernels", "seconds_per_chunk",
    "attention_sink_bias", "add_swa_attention_sink_bias", "add_full_attention_sink_bias",
    "max_window_layers", "use_sliding_window", "sliding_window_size", "attention_chunk_size",
    "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers", "full_attention_interval",
    "kv_cache_dtype", "sparse_config", "num_query_groups", "share_q_dim", "no_rope_layer_interval", "mtp_layers_block_type", "mtp_hybrid_override_pattern",
))  # fmt: skip
"""Names that match but change no cache (experts, routers, kernels, biases), or that a list read before them overrules."""


KERNELS = ("blocksparse_", "dense_attention_every")
"""Beginnings of names that choose what a kernel reads, of a cache that stays whole (Phi-3-small)."""


def refuse_unread(fields: Fields) -> None:
    """Refuse an unknown model type whose config holds a field about the cache that nothing read.

    Types that the reference implementation knows are trusted: their classes are what the readers were checked against.

    Raises: Unsupported.
    """
    if fields.defaults.known:
        return
    for name, value in fields.node.items():
        if name in fields.ledger.read or name in HARMLESS or value is None or value is False or value in (0, "", []):
            continue
        if SPEAKS_OF_THE_CACHE.search(name) and not name.startswith(KERNELS) and "rope" not in name:
            raise Unsupported(
                f"{fields.path}{name} isn't understood for model type {fields.model_type or '(none)'!r}",
                cause="its name says that it changes what a layer keeps, and kvplan won't guess how",
                hint="describe the model in a kvplan YAML, layer group by layer group",
            )
