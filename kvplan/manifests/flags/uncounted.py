"""vLLM's flags that may change memory and that a plan doesn't count: what it does instead, and values that change nothing.

Source: vLLM 0.33 engine/arg_utils.py and config; flags of earlier releases by their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.manifests.flags.meaning import FlagMeaning, words

SIZES = "CUDA graphs are counted for the default batch sizes"

_STORED = "weights are counted as the checkpoint stores them"
_KERNELS = "room is counted for the default kernels"
_TOWERS = "what images, audio and video take is counted as it is without this"
_FRONT = "what the server's front end takes of the GPU is not counted"
_ALLOCATOR = "memory is counted as the usual allocator hands it out"
_CUSTOM = "what code of your own takes is not counted"
_KEPT = "what prefix caching keeps is counted as it is without this"
_OTHER_USE = "the model is planned as one that generates, unless its class pools"
_ADAPTERS = "adapters are counted as they are without this"
_EXPERTS = "the room for experts that move or are exchanged is not counted"
_DRAFT = "the draft model is counted as it is published and split as the model is"
_STEPS = "steps are counted one by one"

_FLAGS: Mapping[str, tuple[str, str]] = {
    # the model
    "runner": (_OTHER_USE, "auto generate draft"),
    "convert": (_OTHER_USE, "auto none"),
    "task": (_OTHER_USE, "auto generate"),
    "config-format": ("the model is planned by its config.json", "auto hf"),
    "model-class-overrides": ("the model is planned by its own config", ""),
    "model-impl": ("the model is planned as vLLM's own class builds it", "auto vllm"),
    "quantization-config": (_STORED, ""),
    "load-format": (
        _STORED,
        (
            "auto hf safetensors pt npcache mistral dummy fastsafetensors instanttensor modelexpress runai_streamer "
            "runai_streamer_sharded sharded_state tensorizer gguf flash_rl"
        ),
    ),
    "qlora-adapter-name-or-path": (_STORED, ""),
    "override-attention-dtype": ("attention is counted in the model's own type", ""),
    "enable-return-routed-experts": ("the record of experts that it keeps is not counted", ""),
    "return-sampling-mask": ("the mask that it keeps is not counted", ""),
    "use-fp64-gumbel": ("the sampler is counted in 32 bit", ""),
    "enable-trace-replay": ("the buffer that it keeps for each request is not counted", ""),
    "enable-prompt-embeds": ("the buffer for embeddings is not counted", ""),
    "enable-sleep-mode": (_ALLOCATOR, ""),
    "enable-cumem-allocator": (_ALLOCATOR, ""),
    "logits-processors": (_CUSTOM, ""),
    # kernels
    "attention-config": (_KERNELS, ""),
    "kernel-config": (_KERNELS, ""),
    "moe-backend": (_KERNELS, "auto"),
    "linear-backend": (_KERNELS, "auto"),
    "monokernel": (_KERNELS, ""),
    "enable-bf16x3-router-gemm": (_KERNELS, ""),
    "cudagraph-capture-sizes": (SIZES, ""),
    "max-cudagraph-capture-size": (SIZES, ""),
    "cuda-graph-sizes": (SIZES, ""),
    # parallel sizes
    "dcp-q-replicate": ("queries' weights are counted split over the ranks", ""),
    "dcp-kv-cache-interleave-size": ("tokens are counted dealt out one by one", "1"),
    "cp-kv-cache-interleave-size": ("tokens are counted dealt out one by one", "1"),
    "enable-hc-sp": ("activations are counted whole on each rank", ""),
    "enable-batch-sharded-sampling": ("logits are counted whole on each rank", ""),
    "enable-dbo": ("a step is counted as one batch, not as two that overlap", ""),
    "ubatch-size": ("a step is counted as one batch", "0"),
    "enable-elastic-ep": (_EXPERTS, ""),
    "enable-eplb": (_EXPERTS, ""),
    "worker-cls": (_CUSTOM, "auto"),
    "worker-extension-cls": (_CUSTOM, ""),
    # the cache
    "prefix-cache-retention-interval": (_KEPT, "0"),
    "enable-mamba-shared-prefix-checkpoint": (_KEPT, ""),
    "enable-mamba-fine-grained-prefix-cache": (_KEPT, ""),
    "kv-sharing-fast-prefill": ("its buffers are not counted", ""),
    "swa-bounded-replay": (_KEPT, ""),
    "use-replayssm": ("the inputs that it keeps beside each state are not counted", ""),
    "num-lookahead-slots": (_STEPS, "0"),
    "num-scheduler-steps": (_STEPS, "1"),
    # media
    "mm-processor-kwargs": (_TOWERS, ""),
    "mm-encoder-attn-backend": (_TOWERS, ""),
    "mm-encoder-attn-dtype": (_TOWERS, "auto"),
    "disable-chunked-mm-input": (_TOWERS, ""),
    "skip-mm-profiling": ("vLLM then gives the cache what towers need, and may run out of memory", ""),
    "video-pruning-rate": (_TOWERS, "0 0.0"),
    "video-pruning-method": (_TOWERS, ""),
    "mm-processor-device": (_FRONT, "auto cpu"),
    "mm-ipc-gpu-memory-gb": ("vLLM takes it off the cache's memory, and the plan doesn't", "0 0.0"),
    "media-io-kwargs": (_FRONT, ""),
    "mm-device-do-normalize": (_FRONT, ""),
    "mm-tensor-ipc": (_FRONT, "direct_rpc"),
    "ec-transfer-config": (_TOWERS, ""),
    "ec-manager-config": (_TOWERS, ""),
    # adapters
    "enable-tower-connector-lora": (_ADAPTERS, ""),
    "specialize-active-lora": ("the CUDA graphs that it captures for each number of adapters are not counted", ""),
    "enable-mixed-moe-lora-format": (_ADAPTERS, ""),
    "enable-moe-shared-loras": (_ADAPTERS, ""),
    "max-lora-cls-labels": (_ADAPTERS, ""),
    "enable-lora-bias": (_ADAPTERS, ""),
    "lora-extra-vocab-size": (_ADAPTERS, "256"),
    "long-lora-scaling-factors": (_ADAPTERS, ""),
    "enable-prompt-adapter": ("prompt adapters are not counted", ""),
    # the scheduler
    "watermark": (
        "vLLM admits waiting requests only while that share of the blocks stays free: fewer sequences run at once than planned",
        "0 0.0",
    ),
    "max-num-scheduled-tokens": ("steps are counted as long as max_num_batched_tokens", ""),
    "scheduler-cls": (_CUSTOM, ""),
    # drafts
    "speculative-draft-tensor-parallel-size": (_DRAFT, ""),
    "speculative-max-model-len": (_DRAFT, ""),
    "speculative-model-quantization": (_DRAFT, ""),
    # anything
    "diffusion-config": ("the model is planned as one that writes token by token", ""),
    "engram-config": ("its tables are counted as the checkpoint stores them", ""),
    "aux-output-config": ("what it keeps of each step is not counted", ""),
    "weight-transfer-config": ("the room for weights in transfer is not counted", ""),
}  # fmt: skip

UNCOUNTED: Mapping[str, FlagMeaning] = {
    name: FlagMeaning(uncounted=instead, harmless=words(harmless), frees=instead == _STORED)
    for name, (instead, harmless) in _FLAGS.items()
}
"""Flags by their names without dashes."""
