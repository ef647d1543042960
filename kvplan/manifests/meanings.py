"""What each of vLLM's flags means to a plan, one row a flag. A flag that isn't here doesn't move memory.

Which release has a flag, and what follows it on a command line, stands in kvplan.engines.vllm.tables.flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.manifests.said import Key
from kvplan.manifests.values import (
    adds_experts,
    every_rank,
    human,
    length,
    modules,
    natural,
    off,
    rank,
    share,
    special_kernels,
    stated,
    switch,
    text,
    unoptimized,
    whole,
    without_graphs,
)


def _always(_value: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class FlagMeaning:
    """What a flag means to a plan.

    key: of a budget, that the flag sets; None for one that is only remarked on, or that is a part of something else. read:
    its value from what was written (raising BadSize or UsageError), None for a value that says nothing. option: the field
    of Options that the value sets. uncounted: what a plan does instead of counting the flag. harmless: words that leave
    memory as it is. moves: whether another value moves it. stretches: whether the flag may give a model a longer context
    than its config does.
    """

    key: Key | None = None
    read: Callable[[object], Any] = text
    option: str | None = None
    uncounted: str | None = None
    harmless: frozenset[str] = frozenset()
    moves: Callable[[object], bool] = _always
    stretches: bool = False

    def remarked(self, said: object) -> bool:
        """Whether a value moves memory in a way that isn't counted."""
        harmless = said is False or (isinstance(said, str) and said in self.harmless)
        return self.uncounted is not None and not harmless and self.moves(said)

    def value(self, said: object) -> object:
        """What the flag sets its key to: an engine's own flag as it was written, once that could be read.

        Raises: BadSize; UsageError.
        """
        read = self.read(said)
        return said if self.option is not None else read


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _flag(name: str, option: str, read: Callable[[object], Any]) -> FlagMeaning:
    """A flag that budgets write under `flags`."""
    return FlagMeaning(("flags", name), read, option)


_SIXTEEN_BIT = _words("auto bfloat16 half float16")
_OWN_CONFIG = "the model is planned by its own config"
_STATE_TYPE = "recurrent state is counted in the model's own type"
_OFFLOADED = "weights moved to the host are still counted on the GPU"
_REDUNDANT = "redundant experts are not counted: each rank holds more weights than planned"
_EAGER = ("flags", "enforce_eager")

MEANINGS: Mapping[str, FlagMeaning] = {
    # the model
    "model": FlagMeaning(("model",)),
    "revision": FlagMeaning(("revision",)),
    "max-model-len": FlagMeaning(("context",), length),
    "hf-overrides": FlagMeaning(uncounted=_OWN_CONFIG, stretches=True),
    "hf-config-path": FlagMeaning(uncounted=_OWN_CONFIG, stretches=True),
    "rope-scaling": FlagMeaning(uncounted=_OWN_CONFIG, stretches=True),
    "language-model-only": FlagMeaning(uncounted="towers are still counted"),
    "skip-mm-profiling": FlagMeaning(uncounted="the encoder of images is still counted in the start-up profile"),
    "mm-encoder-only": FlagMeaning(uncounted="the whole model is counted"),
    # weights
    "dtype": FlagMeaning(
        ("flags", "dtype"), stated,
        uncounted="weights and cache are counted in the checkpoint's type", harmless=_SIXTEEN_BIT,
    ),
    "quantization": FlagMeaning(
        ("flags", "quantization"), stated, uncounted="weights are counted as the checkpoint stores them",
        # formats that a checkpoint states itself
        harmless=_words("None gptq gptq_marlin awq awq_marlin compressed-tensors modelopt modelopt_fp4 mxfp4 torchao"),
    ),
    "cpu-offload-gb": FlagMeaning(uncounted=_OFFLOADED, harmless=_words("0 0.0")),
    "offload-group-size": FlagMeaning(uncounted=_OFFLOADED),
    # parallel sizes
    "tensor-parallel-size": FlagMeaning(("parallel", "tp"), whole),
    "pipeline-parallel-size": FlagMeaning(("parallel", "pp"), whole),
    "data-parallel-size": FlagMeaning(("parallel", "dp"), whole),
    "decode-context-parallel-size": FlagMeaning(("parallel", "dcp"), whole),
    "enable-expert-parallel": FlagMeaning(("parallel", "ep"), every_rank),
    "prefill-context-parallel-size": FlagMeaning(
        uncounted="prefill context parallelism is not planned", harmless=_words("1")
    ),
    "mm-encoder-tp-mode": FlagMeaning(
        uncounted="towers are counted split over the tensor ranks, and `data` keeps them whole on each",
        harmless=_words("weights"),
    ),
    "enable-multimodal-encoder-data-parallel": FlagMeaning(
        uncounted="towers are counted split over the tensor ranks, and this keeps them whole on each"
    ),
    "num-redundant-experts": FlagMeaning(uncounted=_REDUNDANT, harmless=_words("0")),
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
        uncounted="states are planned at the ends of blocks (align)", harmless=_words("align none")
    ),
    "mamba-block-size": FlagMeaning(uncounted="recurrent state is planned with vLLM's own block size"),
    "kv-offloading-backend": FlagMeaning(
        uncounted="whether it turns the hybrid KV cache manager off is not counted", harmless=_words("native")
    ),
    "attention-backend": FlagMeaning(
        uncounted="blocks are counted in the size that the default kernels want", moves=special_kernels
    ),
    # the scheduler
    "max-num-batched-tokens": _flag("max_num_batched_tokens", "max_num_batched_tokens", human),
    "max-num-seqs": _flag("max_num_seqs", "max_num_seqs", whole),
    "async-scheduling": _flag("async_scheduling", "async_scheduling", switch),
    "enforce-eager": _flag("enforce_eager", "graphs", off),
    "compilation-config": FlagMeaning(_EAGER, without_graphs),
    "optimization-level": FlagMeaning(_EAGER, unoptimized),
    # drafts, of which kvplan.manifests.speculative makes one whole
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
"""Flags by their names without dashes."""
