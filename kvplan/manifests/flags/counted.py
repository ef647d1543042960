"""What each of vLLM's flags means to a plan, one row per flag: here those that are counted, and those that belong to one.

Flags that only deserve a warning stand in kvplan.manifests.flags.uncounted, those that leave memory as it is, and why,
in tests/check/harmless.py: every flag is in one of the three. Which release has a flag, and what follows it on a command line, stands in kvplan.engines.vllm.tables.flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.manifests.flags.meaning import FlagMeaning, words
from kvplan.manifests.flags.uncounted import SIZES, UNCOUNTED
from kvplan.manifests.flags.values import (
    adds_experts,
    doubled,
    every_rank,
    human,
    kernels,
    leaves_media,
    length,
    modules,
    natural,
    off,
    rank,
    share,
    sizes_graphs,
    stated,
    switch,
    unknown_alone,
    unoptimized,
    whole,
    without_graphs,
    without_media,
)


def _flag(
    name: str, option: str, read: Callable[[object], Any], uncounted: str | None = None, *, harmless: str = ""
) -> FlagMeaning:
    """A flag that budgets write under `flags`. uncounted: what of it is not counted, except for the words in `harmless`."""
    return FlagMeaning(("flags", name), read, option, uncounted, words(harmless), partly=uncounted is not None)


_SIXTEEN_BIT = words("auto bfloat16 half float16")
_OWN_CONFIG = "the model is planned by its own config"
_STATE_TYPE = "recurrent state is counted in the model's own type"
_OFFLOADED = "weights moved to the host are still counted on the GPU"
_REDUNDANT = "redundant experts are not counted: each rank holds more weights than planned"
_EAGER = ("flags", "enforce_eager")

PLANNED: Mapping[str, FlagMeaning] = {
    # the model
    "model": FlagMeaning(("model",)),
    "revision": FlagMeaning(("revision",)),
    "max-model-len": FlagMeaning(("context",), length),
    "hf-overrides": FlagMeaning(uncounted=_OWN_CONFIG, overrides=True),
    "hf-config-path": FlagMeaning(uncounted=_OWN_CONFIG, overrides=True),
    "rope-scaling": FlagMeaning(uncounted=_OWN_CONFIG, overrides=True),
    "language-model-only": _flag("language_model_only", "language_model_only", switch),
    "limit-mm-per-prompt": FlagMeaning(
        ("flags", "limit_mm_per_prompt"), without_media, "no_media",
        uncounted="what images, audio and video take is counted as it is without these limits, unless all are 0",
        moves=leaves_media, partly=True, careful=True,
    ),
    "mm-encoder-only": FlagMeaning(uncounted="the whole model is counted", frees=True),
    # weights
    "dtype": FlagMeaning(
        ("flags", "dtype"), stated,
        uncounted="weights and cache are counted in the checkpoint's type", harmless=_SIXTEEN_BIT,
    ),
    "quantization": FlagMeaning(
        ("flags", "quantization"), stated, uncounted="weights are counted as the checkpoint stores them",
        # formats that a checkpoint states itself
        harmless=words("None gptq gptq_marlin awq awq_marlin compressed-tensors modelopt modelopt_fp4 mxfp4 torchao inc auto-round auto_round"),
        frees=True,
    ),
    "cpu-offload-gb": FlagMeaning(uncounted=_OFFLOADED, harmless=words("0 0.0"), frees=True),
    "offload-group-size": FlagMeaning(uncounted=_OFFLOADED, harmless=words("0"), frees=True),
    # parallel sizes
    "tensor-parallel-size": FlagMeaning(("parallel", "tp"), whole),
    "pipeline-parallel-size": FlagMeaning(("parallel", "pp"), whole),
    "data-parallel-size": FlagMeaning(("parallel", "dp"), whole),
    "decode-context-parallel-size": FlagMeaning(("parallel", "dcp"), whole),
    "enable-expert-parallel": FlagMeaning(("parallel", "ep"), every_rank),
    "all2all-backend": _flag(
        "all2all_backend", "all2all_backend", stated, "the buffers that experts exchange tokens through are not counted",
        harmless="allgather_reducescatter naive pplx deepep_high_throughput deepep_low_latency nixl_ep",
    ),
    "prefill-context-parallel-size": FlagMeaning(
        uncounted="prefill context parallelism is not planned", harmless=words("1"), frees=True
    ),
    "mm-encoder-tp-mode": FlagMeaning(
        uncounted="towers are counted split over the tensor ranks, and `data` keeps them whole on each",
        harmless=words("weights"),
    ),
    "enable-multimodal-encoder-data-parallel": FlagMeaning(
        uncounted="towers are counted split over the tensor ranks, and this keeps them whole on each"
    ),
    "num-redundant-experts": FlagMeaning(uncounted=_REDUNDANT, harmless=words("0")),
    "eplb-config": FlagMeaning(uncounted=_REDUNDANT, moves=adds_experts),
    # the cache
    "gpu-memory-utilization": _flag("gpu_memory_utilization", "utilization", share),
    "kv-cache-memory-bytes": _flag("kv_cache_memory_bytes", "kv_memory", human),
    "kv-cache-dtype": FlagMeaning(("kv_dtype",)),
    "block-size": _flag("block_size", "block_size", whole),
    "enable-prefix-caching": _flag("enable_prefix_caching", "prefix_caching", switch),
    "disable-hybrid-kv-cache-manager": _flag("disable_hybrid_kv_cache_manager", "hybrid_manager", off),
    "num-gpu-blocks-override": FlagMeaning(uncounted="the number of blocks is planned from memory, not taken from here"),
    "kv-cache-dtype-skip-layers": FlagMeaning(uncounted="all layers are counted in one cache format"),
    "disable-sliding-window": FlagMeaning(uncounted="windows are planned as windows"),
    "mamba-cache-dtype": FlagMeaning(uncounted=_STATE_TYPE),
    "mamba-ssm-cache-dtype": FlagMeaning(uncounted=_STATE_TYPE),
    "mamba-cache-mode": FlagMeaning(
        uncounted="states are planned at the ends of blocks (align)", harmless=words("align none")
    ),
    "mamba-block-size": FlagMeaning(uncounted="recurrent state is planned with vLLM's own block size"),
    "attention-backend": FlagMeaning(
        ("flags", "attention_backend"), kernels, "attention_backend",
        uncounted="blocks are counted in the size that the default kernels want", moves=unknown_alone, partly=True, careful=True,
    ),
    # the scheduler
    "max-num-batched-tokens": _flag("max_num_batched_tokens", "max_num_batched_tokens", human),
    "max-num-seqs": _flag("max_num_seqs", "max_num_seqs", whole),
    "max-num-active-seqs": _flag("max_num_active_seqs", "max_num_active_seqs", whole),
    "enable-chunked-prefill": _flag("enable_chunked_prefill", "chunked_prefill", switch),
    "performance-mode": _flag(
        "performance_mode", "throughput", doubled, "the CUDA graphs that it captures beside the usual ones are not counted",
        harmless="balanced throughput",
    ),
    "async-scheduling": _flag("async_scheduling", "async_scheduling", switch),
    "enforce-eager": _flag("enforce_eager", "graphs", off),
    "compilation-config": FlagMeaning(_EAGER, without_graphs, uncounted=SIZES, moves=sizes_graphs, partly=True),
    "optimization-level": FlagMeaning(_EAGER, unoptimized),
    # drafts, of which kvplan.manifests.flags.speculative makes one whole
    "num-speculative-tokens": FlagMeaning(read=natural, option="speculative_tokens"),
    # adapters
    "enable-lora": _flag("enable_lora", "max_loras", switch),
    "max-loras": _flag("max_loras", "max_loras", whole),
    "max-lora-rank": _flag("max_lora_rank", "max_lora_rank", rank),
    "lora-target-modules": _flag("lora_target_modules", "lora_targets", modules),
    "fully-sharded-loras": FlagMeaning(uncounted="adapters are counted as they are split without it"),
    "lora-dtype": FlagMeaning(uncounted="adapters are counted in 16 bit", harmless=_SIXTEEN_BIT),
    # anything
    "additional-config": FlagMeaning(uncounted="its effect on memory is not known"),
}  # fmt: skip
"""Flags of this table, by their names without dashes."""

MEANINGS: Mapping[str, FlagMeaning] = {**UNCOUNTED, **PLANNED}
"""All flags that matter, by their names without dashes; the two tables share none."""
