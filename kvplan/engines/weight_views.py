"""What each engine makes of a checkpoint's tensors: padding, replication, formats of its own, tables it keeps beside them.

The inventory (arch/weights.py) is the checkpoint's; only the differences stand here.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.arch.model import Model
from kvplan.arch.storage import BF16, FP16, FP32, Storage
from kvplan.arch.weights import PLAIN, Component, View, Weight
from kvplan.hardware.gpu import Gpu

VOCABULARY_MULTIPLE = 64
"""Rows that vLLM pads embeddings and heads to. Source: vLLM 0.33 layers/vocab_parallel_embedding.py."""

WIDE_ROUTERS = frozenset((
    "afmoe", "bailing_moe", "bailing_hybrid", "ernie4_5_moe", "glm4_moe", "glm4v_moe_text", "hy_v3", "mimo_v2_flash", "minimax_m2",
    "minimax_m3_vl_text", "minimax_m3", "step3p5", "step3p7",
))  # fmt: skip
"""Types whose router vLLM 0.33 keeps in fp32. Source: model_executor/models, GateLinear's params_dtype."""

HYPER = ("attn_hc.", "ffn_hc.", "hc_head.")
"""Beginnings of names of hyper-connections, which vLLM 0.33 keeps in fp32. Source: models/deepseek_v4."""

BOTH = ".also_v"
"""End of the name of a key projection that gives the values too, which vLLM 0.33 stores twice (gemma4)."""


class Multiples(NamedTuple):
    """What a rank's share of an expert is rounded up to."""

    width: int
    hidden: int = 1


def expert_multiples(stored: Storage, width: int, gpu: Gpu | None) -> Multiples:
    """Multiples of the kernels that vLLM 0.33 picks for experts so stored, `width` wide on a rank, on a GPU.

    In mxfp4, Triton's kernels on Hopper, Marlin's or TensorRT-LLM's on other GPUs of Nvidia; in 16 bit, TensorRT-LLM's on
    data center Blackwell, AITER's on AMD.

    Source: vLLM 0.33 fused_moe/oracle/mxfp4.py, mxfp4_round_up_hidden_size_and_intermediate_size; oracle/unquantized.py.
    """
    amd = gpu is not None and gpu.vendor == "amd"
    major = None if gpu is None or gpu.compute_capability is None else gpu.compute_capability[0]
    if stored.name == "mxfp4":
        return Multiples(256, 256) if amd else Multiples(64) if major in (None, HOPPER) else Multiples(128, 256)
    if stored in (BF16, FP16):
        return Multiples(64 if amd and width <= AITER_SMALL else 128 if amd or major == BLACKWELL else 1)
    return Multiples(1)


HOPPER, BLACKWELL = 9, 10
"""Major compute capabilities of H100, H200 and GH200; of B200, B300 and GB200."""

AITER_SMALL = 192
"""Widths up to which AITER's kernels take tiles of 64."""


def view_of(engine: str, model: Model, gpu: Gpu | None = None) -> View:
    """How `engine` lays out the weights of `model`; the checkpoint's own layout for engines without a rule."""
    return vllm(model.family, gpu) if engine in ("vllm", "sglang") else PLAIN


def vllm(family: str, gpu: Gpu | None = None) -> View:
    """VLLM 0.33's parameters and buffers before its kernels repack them."""

    def shape(weight: Weight, shard: tuple[int, ...]) -> tuple[int, ...]:
        if weight.routed and weight.split is not None and weight.linear:
            width, hidden = expert_multiples(weight.stored, shard[weight.split], gpu)
            return _apart(
                weight,
                tuple(_up(size, width if dim == weight.split else hidden) for dim, size in enumerate(shard)),
                gpu,
            )
        if family == "gpt_bigcode" and weight.component == "mlp":
            return weight.shape
        if weight.name.endswith(BOTH):
            return (2 * shard[0], *shard[1:])
        return _apart(weight, shard, gpu)

    def store(weight: Weight) -> Storage:
        wide = (family in WIDE_ROUTERS and weight.component == "router") or weight.name.startswith(HYPER)
        return FP32 if wide else weight.stored

    ends: tuple[tuple[frozenset[str], Component], ...] = (
        (EMBEDDING_EVERYWHERE, "embedding"),
        (HEAD_EVERYWHERE, "head"),
    )
    everywhere = frozenset(component for families, component in ends if family in families)
    return View(
        VOCABULARY_MULTIPLE, everywhere=everywhere, tables=family not in BY_TRANSFORMERS, shape=shape, store=store
    )


def _apart(weight: Weight, shard: tuple[int, ...], gpu: Gpu | None) -> tuple[int, ...]:
    """On AMD, rows of a multiple of 512 bytes lie 256 bytes further apart: experts in 16 bit, other matrices in fp8.

    Source: vLLM 0.33 quantization/utils/fp8_utils.py _maybe_pad_fp8_weight, fused_moe/unquantized_fused_moe_method.py.
    """
    if gpu is None or gpu.vendor != "amd" or not weight.linear or len(shard) != 2:
        return shard
    padded = weight.stored in (BF16, FP16) if weight.routed else weight.stored.bits == 8 and "fp8" in weight.stored.name
    size = weight.stored.bits // 8
    if not padded or shard[1] * size % 512:
        return shard
    return shard[0], shard[1] + 256 // size


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


BY_TRANSFORMERS = frozenset((
    "arcee", "cwm", "flex_olmo", "glm", "gpt_neox", "hunyuan_v1_dense", "hunyuan_v1_moe", "jais2", "kolibri1", "mellum",
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
