"""What each engine makes of a checkpoint's tensors: padding, replication, formats of its own, tables it keeps beside them.

The inventory (arch/weights.py) is the checkpoint's; only the differences stand here.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.storage import FP32, Storage
from kvplan.arch.weights import PLAIN, Component, View, Weight

VOCABULARY_MULTIPLE = 64
"""Rows that vLLM pads embeddings and heads to. Source: vLLM 0.33 layers/vocab_parallel_embedding.py."""

WIDE_ROUTERS = frozenset((
    "afmoe", "bailing_moe", "bailing_hybrid", "ernie4_5_moe", "glm4_moe", "glm4v_moe_text", "hy_v3", "mimo_v2_flash", "minimax_m2",
    "minimax_m3_vl_text", "minimax_m3", "step3p5", "step3p7",
))  # fmt: skip
"""Types whose router vLLM 0.33 keeps in fp32. Source: model_executor/models, GateLinear's params_dtype."""

BOTH = ".also_v"
"""End of the name of a key projection that gives the values too, which vLLM 0.33 stores twice (gemma4)."""

_MXFP4_MULTIPLE = 64
"""Expert width of a rank that vLLM 0.33 rounds mxfp4 experts up to. Source: quantization/mxfp4.py."""


def view_of(engine: str, model: Model) -> View:
    """How `engine` lays out the weights of `model`; the checkpoint's own layout for engines without a rule."""
    return vllm(model.family) if engine in ("vllm", "sglang") else PLAIN


def vllm(family: str) -> View:
    """VLLM 0.33's parameters and buffers before its kernels repack them."""

    def shape(weight: Weight, shard: tuple[int, ...]) -> tuple[int, ...]:
        if weight.stored.name == "mxfp4" and weight.routed and weight.split is not None:
            width = -(-shard[weight.split] // _MXFP4_MULTIPLE) * _MXFP4_MULTIPLE
            return (*shard[: weight.split], width, *shard[weight.split + 1 :])
        if family == "gpt_bigcode" and weight.component == "mlp":
            return weight.shape
        if weight.name.endswith(BOTH):
            return (2 * shard[0], *shard[1:])
        return shard

    def store(weight: Weight) -> Storage:
        return FP32 if family in WIDE_ROUTERS and weight.component == "router" else weight.stored

    ends: tuple[tuple[frozenset[str], Component], ...] = (
        (EMBEDDING_EVERYWHERE, "embedding"),
        (HEAD_EVERYWHERE, "head"),
    )
    everywhere = frozenset(component for families, component in ends if family in families)
    return View(
        VOCABULARY_MULTIPLE, everywhere=everywhere, tables=family not in BY_TRANSFORMERS, shape=shape, store=store
    )


BY_TRANSFORMERS = frozenset((
    "arcee", "cwm", "flex_olmo", "glm", "gpt_bigcode", "gpt_neox", "hunyuan_v1_dense", "hunyuan_v1_moe", "jais2", "kolibri1", "mellum",
    "nanbeige", "olmo", "olmo2", "olmo3", "phi", "seed_oss", "smollm3", "starcoder2", "vaultgemma", "dots1",
))  # fmt: skip
"""Types that vLLM 0.33 runs through transformers' own modules, which keep no tables of positions.

Source: vLLM 0.33 model_executor/models/registry.py.
"""

HEAD_EVERYWHERE = frozenset((
    "bloom", "dbrx", "falcon", "RefinedWeb", "gemma", "gemma3_text", "gemma4_text", "gemma4_unified_text", "gpt2", "gptj", "gpt_oss",
    "granitemoe", "granitemoehybrid", "granitemoeshared", "hy_v3", "internlm2", "jamba", "mamba", "falcon_mamba", "mamba2",
    "minicpm", "minicpm3", "mixtral", "molmo", "nemotron_h", "olmo_hybrid", "olmoe", "opt", "orion", "phimoe", "qwen2_moe", "qwen3_moe",
    "qwen3_next", "qwen3_vl_moe_text", "qwen3_omni_moe_text", "stablelm", "zamba2",
))  # fmt: skip
"""Types whose head vLLM 0.33 builds on every pipeline stage. Source: model_executor/models, ParallelLMHead."""

EMBEDDING_EVERYWHERE = HEAD_EVERYWHERE | frozenset((
    "chatglm", "cohere", "cohere2", "cohere2_moe", "gemma2", "gemma3n_text", "lfm2", "lfm2_moe", "phi3_v", "qwen3_5_text",
    "qwen3_5_moe_text",
))  # fmt: skip
"""Types whose embedding it builds on every stage. Source: model_executor/models, VocabParallelEmbedding."""
