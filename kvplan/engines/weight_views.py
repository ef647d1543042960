"""What each engine makes of a checkpoint's tensors: padding, replication, formats of its own, tables it keeps beside them.

The inventory (arch/weights.py) is the checkpoint's; only the differences stand here.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.weights import FP32, PLAIN, Storage, View, Weight

VOCABULARY_MULTIPLE = 64
"""Rows that vLLM pads embeddings and heads to. Source: vLLM 0.33 layers/vocab_parallel_embedding.py."""

WHOLE_TOWERS = frozenset(("gemma4_text", "gemma4_unified_text", "qwen2_audio_text", "gemma3n_text"))
"""Types whose towers vLLM 0.33 runs as transformers wrote them: whole on every rank."""

WIDE_ROUTERS = frozenset(("minimax_m2", "minimax_m3_vl_text", "minimax_m3"))
"""Types whose router vLLM 0.33 keeps in fp32."""

_MXFP4_MULTIPLE = 64
"""Expert width of a rank that vLLM 0.33 rounds mxfp4 experts up to. Source: quantization/mxfp4.py."""


def view_of(engine: str, model: Model) -> View:
    """How `engine` lays out the weights of `model`; the checkpoint's own layout for engines without a rule."""
    return vllm(model.family) if engine in ("vllm", "sglang") else PLAIN


def vllm(family: str) -> View:
    """vLLM 0.33's parameters and buffers before its kernels repack them."""

    def shape(weight: Weight, shard: tuple[int, ...]) -> tuple[int, ...]:
        if family in WHOLE_TOWERS and weight.component in ("vision", "audio", "projector"):
            return weight.shape
        if weight.stored.name == "mxfp4" and weight.routed and weight.split is not None:
            width = -(-shard[weight.split] // _MXFP4_MULTIPLE) * _MXFP4_MULTIPLE
            return (*shard[: weight.split], width, *shard[weight.split + 1 :])
        if family == "gpt_bigcode" and weight.component == "mlp":
            return weight.shape
        return shard

    def store(weight: Weight) -> Storage:
        return FP32 if family in WIDE_ROUTERS and weight.component == "router" else weight.stored

    return View(VOCABULARY_MULTIPLE, tables=family not in BY_TRANSFORMERS, shape=shape, store=store)


BY_TRANSFORMERS = frozenset((
    "arcee", "cwm", "flex_olmo", "glm", "gpt_bigcode", "gpt_neox", "hunyuan_v1_dense", "hunyuan_v1_moe", "jais2", "kolibri1", "mellum",
    "nanbeige", "olmo", "olmo2", "olmo3", "phi", "seed_oss", "smollm3", "starcoder2", "vaultgemma", "dots1",
))  # fmt: skip
"""Types that vLLM 0.33 runs through transformers' own modules, which keep no tables of positions.

Source: vLLM 0.33 model_executor/models/registry.py.
"""
