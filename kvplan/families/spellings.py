"""What configs call the same thing: field names, in the order in which they are believed.

The standard name comes first; a class in class_defaults.json counts the others only where it reads them, or maps them.
Mistral's params.json (kvplan/sources/mistral.py) has words of its own, where hidden_dim is the MLP's width.
"""

from __future__ import annotations

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = (
    "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "attn_config.kv_n_heads", "num_attention_groups",
)  # fmt: skip
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
"""Elements of a head."""
WIDTH = ("hidden_size", "n_embd", "d_model", "model_dim", "n_embed")

STATED = ("model_max_length", "max_sequence_length")
"""A model's own word on its length, which some state beside a smaller or absent table size (Command-R, Kimi-Linear)."""

POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
"""Rows of a table of positions, learned or rotary."""

TABLES = (
    *POSITIONS, "max_context_length", "max_target_positions", "seq_length",
    "context_length", "n_ctx", "max_seq_length", "max_decoder_position_embeddings", "seq_len",
)  # fmt: skip
"""Sizes of the position table, in the order they are believed."""

ORIGINAL = "original_max_position_embeddings"
"""The length a model was trained at, before its rotary positions were scaled."""

SERVED_BLOCKS = ("quantization_config", "compression_config")
"""Names of the block that says how weights are quantized: the usual one, and that of older compressed-tensors.

No other counts for what a server does by it. Source: vLLM 0.33 transformers_utils/model_arch_config_convertor.py
_normalize_quantization_config.
"""

BLOCKS = (SERVED_BLOCKS[0], "quantization", *SERVED_BLOCKS[1:])
"""The same with MLX's, which says what the files hold; no server planned for reads it, so it decides nothing of theirs."""
