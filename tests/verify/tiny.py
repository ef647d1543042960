"""Small configs of real model types, one for every kind of layer that verify has a module for."""

from __future__ import annotations

from typing import Any

from kvplan import families
from kvplan.arch.model import Model, Origin

COMMON = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
LATENT = {
    "q_lora_rank": 24, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "moe_layer_freq": 1, "num_key_value_heads": 4,
}  # fmt: skip
MAMBA = {
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_ssm": 128, "mamba_d_state": 16, "mamba_n_groups": 2, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_rms_norm": True, "projectors_bias": False,
}  # fmt: skip
DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4, "full_attention_interval": 3, "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "gqa": {"model_type": "llama"},
    "output biases": {"model_type": "starcoder2", "use_bias": True, "sliding_window": None},
    "mha with biases": {"model_type": "qwen2", "num_key_value_heads": 4, "use_sliding_window": False},
    "sliding": {"model_type": "gemma3_text", "sliding_window": 32, "sliding_window_pattern": 3, "num_hidden_layers": 4},
    "sink logits and experts": {
        "model_type": "gpt_oss", "sliding_window": 32, "num_local_experts": 8, "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "chunked": {
        "model_type": "llama4_text", "attention_chunk_size": 64, "num_local_experts": 4, "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2, "intermediate_size_mlp": 128, "no_rope_layers": [1, 1, 0], "num_hidden_layers": 3,
    },
    "mla": {"model_type": "deepseek_v3", **LATENT},
    "sparse mla": {"model_type": "deepseek_v32", **LATENT, "index_head_dim": 128, "index_n_heads": 8, "index_topk": 16},
    "gated delta net": {"model_type": "qwen3_next", **DELTA},
    "attention beside mamba2": {"model_type": "falcon_h1", **MAMBA},
    "short convolution": {
        "model_type": "lfm2", "conv_L_cache": 3, "layer_types": ["conv", "full_attention", "conv"],
        "block_auto_adjust_ff_dim": False,
    },
    "shared": {
        "model_type": "gemma4_text", "num_hidden_layers": 6, "sliding_window": 32, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2, "global_head_dim": 32,
        "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 256, "use_double_wide_mlp": False,
    },
}  # fmt: skip


def model(kind: str, **changes: object) -> Model:
    """The model of a kind."""
    return families.read({**COMMON, **CONFIGS[kind], **changes}, Origin(f"tiny {kind}", "made for this test"))
