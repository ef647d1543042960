"""What a rank builds that a config doesn't say, by type of model: ends of the model on every stage, heads, routers in 32 bit.

A value is the releases that do so, as in the tables beside this one. Read in every release from 0.6.0 to 0.33.0; a span that
starts at 0.6.0 may be older than the type.

Source: ParallelLMHead, VocabParallelEmbedding, GateLinear, ReplicatedLinear and nn.Linear of model_executor/models and models.
"""

from __future__ import annotations

from collections.abc import Mapping

ALWAYS = "0.6.0"
"""Since the first release that is known, or that has the type."""


def _always(*types: str) -> dict[str, str]:
    return dict.fromkeys(types, ALWAYS)


_BOTH = {
    **_always(
        "bloom", "chatglm", "dbrx", "falcon", "flint", "RefinedWeb", "gemma", "gemma3_text", "gemma4_text", "gemma4_unified_text", "gpt2", "gptj",
        "gpt_oss", "granitemoe", "granitemoehybrid", "granitemoeshared", "hy_v3", "internlm2", "jamba", "k2_horizon", "mamba", "falcon_mamba",
        "mamba2", "minicpm", "minicpm3", "mixtral", "molmo", "molmo2_text", "moondream3_text", "muse_glimmer_text", "nemotron_h", "olmo_hybrid",
        "olmoe", "opt", "orion", "phimoe", "plamo3", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_vl_moe_text", "qwen3_omni_moe_text",
        "qwen4_exp_text", "stablelm", "zamba2",
    ),
    # run by the Transformers library's code since, or gone
    "arctic": "0.6.0-0.28.0", "baichuan": "0.6.0-0.24.0", "bamba": "0.7.3-0.23.0", "deepseek": "0.6.0-0.11.0", "gpt_bigcode": "0.6.0-0.24.0",
    "gpt_neox": "0.6.0-0.31.0", "jais": "0.6.0-0.22.1", "mellum": "0.22.1-0.31.0", "olmo": "0.6.0-0.25.1", "olmo2": "0.6.5-0.25.1",
    "olmo3": "0.6.5-0.28.0", "persimmon": "0.6.0-0.25.1", "phi": "0.6.0-0.31.0", "phi-msft": "0.6.0-0.31.0", "phi3small": "0.6.0-0.9.2", "plamo2": "0.8.5-0.26.0",
    "qwen": "0.6.0-0.23.0", "starcoder2": "0.6.0-0.24.0", "xverse": "0.6.0-0.6.4",
}  # fmt: skip

HEAD_EVERYWHERE: Mapping[str, str] = {
    **_BOTH, **_always("inkling_text"), "deepseek_v2": "0.6.0-0.7.3", "deepseek_v3": "0.6.0-0.7.3", "qwen2": "0.6.0-0.6.4",
}  # fmt: skip
"""Types whose head is built on every pipeline stage."""

EMBEDDING_EVERYWHERE: Mapping[str, str] = {
    **_BOTH,
    **_always(
        "cohere", "cohere2", "cohere2_moe", "gemma2", "gemma3n_text", "lfm2", "lfm2_moe", "phi3_v", "qwen3_5_text", "qwen3_5_moe_text",
    ),
    "mpt": "0.6.0-0.28.0", "qwen2": "0.6.0-0.6.1",
}  # fmt: skip
"""Types whose embedding is built on every stage."""

OWN_HEAD: Mapping[str, str] = {
    **_always(
        "afmoe", "aria_text", "axk1", "bailing_hybrid", "bailing_moe_linear", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4",
        "dory", "flint", "glm4_moe_lite", "glm5_next_text", "glm_moe_dsa", "inkling_text", "jamba", "kimi_k2", "longcat_flash",
        "mimo_v2_flash", "minimax_m2", "minimax_m3", "minimax_m3_vl_text", "molmo2_text", "moondream3_text", "muse_glimmer_text", "nemotron_h",
        "olmoe", "phimoe", "qwen3_next", "qwen4_exp_text", "step3_text", "step3p5",
    ),
    **dict.fromkeys(("glm4_moe", "glm4v_moe_text"), "0.10.1"),
    **dict.fromkeys(("minimax", "minimax_text_01"), "0.8.3-0.23.0"),
    "bamba": "0.7.3-0.23.0", "deepseek": "0.11.1", "dots1": "0.9.2-0.23.0", "gpt_oss": "0.10.1-0.10.1 0.29.0", "kimi_linear": "0.11.1-0.18.1 0.29.0", "molmo": "0.6.5-0.27.1",
    "persimmon": "0.6.0-0.25.1",
}  # fmt: skip
"""Types whose head is built beside the embedding though the config says they are one: classes that never ask."""

WIDE_ROUTERS: Mapping[str, str] = {
    **_always(
        "afmoe", "bailing_hybrid", "beam", "hy_v3", "hy_v4", "longcat_flash", "mimo_v2_flash", "minimax_m2", "minimax_m3_vl_text", "minimax_m3",
        "muse_spark_text", "step3p5", "step3p7",
    ),
    **dict.fromkeys(("glm4_moe", "glm4v_moe_text"), "0.10.1"),
    **dict.fromkeys(("minimax", "minimax_text_01"), "0.8.3-0.23.0"),
    "bailing_moe": "0.11.0", "ernie4_5_moe": "0.11.1", "glm_moe_dsa": "0.25.0-0.25.1", "nemotron_h": "0.11.1-0.16.0",
}  # fmt: skip
"""Types whose router is kept in 32 bit, whatever the GPU."""

WIDE_ROUTERS_ELSEWHERE: Mapping[str, str] = {"nemotron_h": "0.17.0"}
"""The same on GPUs without kernels for routers in 16 bit that give scores in 32: all but Hopper's and data center Blackwell's.

Source: fused_moe/router/gate_linear.py of 0.17 to 0.33, force_fp32_compute.
"""
