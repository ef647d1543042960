"""What each vLLM version does differently, as data: one row a change, with the release it starts at and where it was read.

Every release named here was unpacked and read on both sides of the change, except where `sure` is False.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kvplan.errors import UnknownName

Version = tuple[int, int, int]

NEWEST: Version = (0, 33, 0)
OLDEST: Version = (0, 6, 0)


@dataclass(frozen=True, slots=True)
class Batches:
    """Default limits of one step: tokens and sequences."""

    tokens: int
    sequences: int


CacheWindow = Literal["stated", "unless interleaved", "all listed"]
TokenLine = Literal["blocks", "smallest_group", "concurrency"]
Overlap = Literal["never", "dense", "always"]
Sampler = Literal["sorted in PyTorch", "sorted in Triton"]
SecondSampler = Literal["copied to fp32", "as they are", "second runner"]
Others = Literal["none", "dense", "all"]
Expanded = Literal["not", "to the budget", "to the item"]
CachedStates = Literal["refused", "off", "every block of Mamba", "block ends, every block of Mamba", "block ends"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What one version does; the defaults are those of the oldest.

    read: whether it is the version that is asked about, and not the nearest known one. utilization:
    gpu_memory_utilization. groups: whether windows and states have block tables of their own, or blocks for every token.
    chunk_groups: the same for chunked attention. unbalanced: groups take the larger kind's number of layers
    when it is below this many times the smaller kind's. tuples: whether packed pages lie in equal tuples of layers.
    token_line: what "GPU KV cache size" counts. first_page: whether concurrency counts in pages of the first group.
    by_layer: whether the check of the longest request adds up layers, before pages are padded. null_block: whether that
    check withholds a block. overlap: which models have a second step in flight charged to their windows.
    hybrid_prefix_caching: whether state is kept at block boundaries too, by default. cached_states: what prefix caching
    keeps of recurrent state where it is asked for: nothing, as the start fails or it is turned off; a state at every block
    of Mamba's layers, and nothing of others or theirs at the ends of a request's blocks; or the latter of all. checkpoints: recurrences whose
    prefill exports one more state, and the tokens it is aligned to. latent_state_block: what blocks of latents beside
    states are multiples of. latent_blocks: by a GPU's major compute capability, what blocks of latents are multiples of. intel_delta_block:
    what blocks beside gated delta nets are multiples of on Intel's GPUs. cache_window: when layers without a window of their
    own get the config's: always, unless full layers are listed beside windowed ones, or only where all listed are windowed.
    whole_windows: whether classes that refuse windows on some layers take them on all. window_blocks: whether a window picks its own block.
    stages_settle: whether each pipeline stage settles blocks by its own layers.
    prefill_sizes: whether prompts of latents are refused in sizes without a kernel. draft_limits: whether a draft model's
    length is the target's too. graphs_counted: whether CUDA graphs are
    taken off the cache's memory. batches: defaults for GPUs from 160 GiB, from 70 GiB, and others. always_chunked:
    whether prompts are cut into steps at any length, and not only above 32,768 tokens, into steps of long_prompt_steps.
    unchunked: whether they are kept whole where that is asked for. batched_experts: whether a step has 256 tokens by
    default where experts exchange them in batches.
    slow_but_large, slow_capabilities: GPUs with a large one's memory that are given a small one's steps. shared_memory_read: whether
    the size of memory that a GPU shares with the CPU is known when defaults are picked, or taken for nothing. items_whole:
    whether a step must hold an image whole where its tokens attend both ways. items_raise_steps: whether the default grows to
    that. items_expanded: what the start-up profile blows each item's embeddings up to. tables_copied: whether kernels that are
    compiled are measured on a copy of the embedding. sampler: what picks tokens from logits, by the room it takes.
    second_named: classes that the second model runner serves; second_plain: only dense and unquantized; second_others: which of
    the other classes it serves too; second_not_amd: classes that it doesn't serve on AMD. second_logits: what its profile makes of logits.
    second_encodes: whether its profile runs the encoder of images. second_graphs: whether it estimates CUDA graphs. rooms:
    bits of the experts whose rooms for gathered tokens stay allocated. fused_sums: GPUs whose tensor ranks add up and
    normalize in one kernel, by compute capability. libraries: whether libraries outside the allocator take the larger
    room. long_gathered: keys of an indexer that the profile makes room for, in lengths of a request, where that is above
    262,144 tokens; 40 below. silent_state: format of Nemotron-H's recurrence where its config states none. early_compressed: whether compressed attention holds what its first releases did.
    longrope_original: whether the default length is the original one under longrope. yarn_stretches: whether yarn's
    factor multiplies the original length. gptq_order: whether GPTQ weights in the order of activations load. refined_blocks:
    whether experts' scales of blocks are refined where tensor ranks cut inside a block. padded_tiles: whether Marlin pads
    inputs to its tiles. expert_groups_checked: whether compressed-tensors' experts refuse cut groups. groups_named: whether
    its other layers say so when they do.
    """

    version: Version = OLDEST
    read: bool = True
    utilization: float = 0.9
    groups: bool = False
    chunk_groups: bool = False
    unbalanced: float = 0.0
    tuples: bool = True
    token_line: TokenLine = "blocks"  # noqa: S105 - a line of the log
    first_page: bool = True
    by_layer: bool = True
    null_block: bool = False
    overlap: Overlap = "never"
    hybrid_prefix_caching: bool = False
    cached_states: CachedStates = "refused"
    checkpoints: tuple[tuple[str, int], ...] = ()
    latent_state_block: int = 64
    latent_blocks: tuple[tuple[int, int], ...] = ()
    intel_delta_block: int = 1
    cache_window: CacheWindow = "stated"
    whole_windows: bool = False
    window_blocks: bool = False
    stages_settle: bool = False
    prefill_sizes: bool = False
    draft_limits: bool = False
    graphs_counted: bool = False
    batches: tuple[Batches, Batches, Batches] = (Batches(2048, 256), Batches(2048, 256), Batches(2048, 256))
    always_chunked: bool = False
    unchunked: bool = True
    batched_experts: bool = False
    long_prompt_steps: int = 512
    slow_but_large: tuple[str, ...] = ()
    slow_capabilities: frozenset[tuple[int, int]] = frozenset()
    shared_memory_read: bool = False
    items_whole: bool = False
    items_raise_steps: bool = False
    items_expanded: Expanded = "not"
    tables_copied: bool = False
    second_named: frozenset[str] = frozenset()
    second_plain: bool = False
    second_others: Others = "none"
    second_not_amd: frozenset[str] = frozenset()
    second_logits: SecondSampler = "copied to fp32"
    second_encodes: bool = False
    second_graphs: bool = False
    sampler: Sampler = "sorted in PyTorch"
    rooms: frozenset[int] = frozenset()
    fused_sums: frozenset[int] = frozenset()
    libraries: bool = False
    long_gathered: int = 40
    early_compressed: bool = False
    silent_state: str = "fp16"
    longrope_original: bool = False
    yarn_stretches: bool = True
    gptq_order: bool = True
    refined_blocks: bool = False
    padded_tiles: bool = False
    expert_groups_checked: bool = False
    groups_named: bool = False

    def steps_in_flight(self, pp: int, overlapped: bool, dense: Callable[[], bool]) -> int:  # noqa: FBT001 - a flag's value
        """Steps that may be scheduled before the oldest has settled, as windows are charged for them."""
        if self.overlap == "never":
            return 1
        return pp + 1 if overlapped and (pp == 1 or self.overlap == "always" or dense()) else pp


@dataclass(frozen=True, slots=True)
class Change:
    """From `since` on, `values` hold. sure: whether the releases on both sides were read."""

    since: Version
    says: str
    source: str
    values: tuple[tuple[str, object], ...]
    sure: bool = True


_LARGE = Batches(8192, 1024)
_SMALL = Batches(2048, 256)

FIRST_SERVED = frozenset({"DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "Qwen2MoeForCausalLM"})
"""Mixtures that the second model runner serves by default before it serves all. Source: config/vllm.py of 0.24 and 0.25."""
NEXT_SERVED = FIRST_SERVED | {"InklingForCausalLM", "InklingForConditionalGeneration", "LongcatFlashNgramForCausalLM"}
"""The same in 0.26."""

CHANGES: tuple[Change, ...] = (
    Change((0, 7, 0), "long prompts are cut into steps of 2,048", "config.py", (("long_prompt_steps", 2048),), sure=False),
    Change((0, 8, 0), "one engine (V1): steps of 8,192 tokens and 1,024 sequences from 70 GiB, prompts always cut into steps",
           "engine/arg_utils.py", (("batches", (_LARGE, _LARGE, _SMALL)), ("always_chunked", True)), sure=False),
    Change((0, 8, 0), "latents on Hopper have blocks of 64 tokens", "platforms/cuda.py check_and_update_config",
           (("latent_blocks", ((9, 64),)),)),
    Change((0, 8, 0), "prompts are cut into steps even where that is switched off", "engine/arg_utils.py",
           (("unchunked", False),)),
    Change((0, 9, 0), "Qwen2 and its like take windows on all layers", "model_executor/models/qwen2.py", (("whole_windows", True),)),
    Change((0, 9, 0), "an A100 is given a small GPU's steps", "engine/arg_utils.py", (("slow_but_large", ("a100",)),)),
    Change((0, 9, 1), "windows and states have block tables of their own; the printed size is blocks / groups x block",
           "v1/core/kv_cache_utils.py", (("groups", True), ("token_line", "smallest_group")), sure=False),
    Change((0, 10, 1), "the cache has no window where full and windowed layers are listed", "engine/arg_utils.py",
           (("cache_window", "unless interleaved"),)),
    Change((0, 10, 1), "latents on data-center Blackwell have blocks of 128 tokens", "platforms/cuda.py check_and_update_config",
           (("latent_blocks", ((9, 64), (10, 128))),)),
    Change((0, 10, 2), "prefix caching is turned off for recurrent state instead of refused", "model_executor/models/config.py",
           (("cached_states", "off"),)),
    Change((0, 11, 0), "rooms that 8-bit experts gather tokens in stay allocated", "layers/fused_moe/modular_kernel.py; public logs",
           (("rooms", frozenset({8})),), sure=False),
    Change((0, 11, 0), "the start-up profile blows the embeddings of each image or video up to the whole budget",
           "v1/worker/gpu_model_runner.py profile_run", (("items_expanded", "to the budget"),)),
    Change((0, 11, 1), "kernels are measured while they are compiled, on a copy of the embedding", "config/compilation.py benchmark_combo_kernel; "
           "public logs", (("tables_copied", True),)),
    Change((0, 11, 1), "without --max-model-len, a model of longrope gets its original length", "config/model.py",
           (("longrope_original", True),)),
    Change((0, 11, 1), "prompts are kept whole again where cutting them is switched off", "engine/arg_utils.py",
           (("unchunked", True),)),
    Change((0, 11, 1), "prefix caching keeps a state at every block of Mamba's layers, and is turned off for other recurrences",
           "model_executor/models/config.py; vllm-project/vllm#26201", (("cached_states", "every block of Mamba"),)),
    Change((0, 12, 0), "groups take the larger kind's layers up to 1.25 times the smaller kind's",
           "v1/core/kv_cache_utils.py", (("unbalanced", 1.25),)),
    Change((0, 12, 0), "the start-up profile blows embeddings up to the tokens of the longest item",
           "v1/worker/gpu_model_runner.py profile_run", (("items_expanded", "to the item"),)),
    Change((0, 13, 0), "the start-up profile keeps embeddings as they are",
           "v1/worker/gpu_model_runner.py profile_run", (("items_expanded", "not"),)),
    Change((0, 14, 0), "the longest request is checked group by group, padding included; chunked attention has groups",
           "v1/core/kv_cache_utils.py, envs.py", (("by_layer", False), ("chunk_groups", True))),
    Change((0, 14, 0), "rooms that 16-bit experts gather tokens in stay allocated too", "v1/worker/workspace.py; public logs",
           (("rooms", frozenset({8, 16})),), sure=False),
    Change((0, 15, 0), "prefix caching keeps states of other recurrences than Mamba's at the ends of blocks (align)",
           "model_executor/models/config.py", (("cached_states", "block ends, every block of Mamba"),)),
    Change((0, 15, 0), "latents on data-center Blackwell have blocks of 64 tokens", "platforms/cuda.py check_and_update_config",
           (("latent_blocks", ((9, 64), (10, 64))),)),
    Change((0, 17, 0), "logits are sorted in Triton; Hopper's and data-center Blackwell's ranks add up and normalize in one kernel",
           "v1/sample/ops/topk_topp_sampler.py, config/vllm.py enable_allreduce_rms_fusion",
           (("sampler", "sorted in Triton"), ("fused_sums", frozenset({9, 10})))),
    Change((0, 18, 0), "blocks of latents are what the kernels want", "platforms/cuda.py", (("latent_blocks", ()),)),
    Change((0, 18, 0), "libraries outside the allocator take twice the room", "public logs", (("libraries", True),), sure=False),
    Change((0, 18, 0), "groups take the larger kind's layers up to 1.5 times the smaller kind's",
           "v1/core/kv_cache_utils.py", (("unbalanced", 1.5),)),
    Change((0, 20, 0), "gpu_memory_utilization defaults to 0.92; CUDA graphs are estimated and taken off",
           "config/cache.py, envs.py", (("utilization", 0.92), ("graphs_counted", True))),
    Change((0, 20, 0), "a step has 256 tokens where experts exchange them in batches (deepep_low_latency, nixl_ep)",
           "config/parallel.py use_batched_dp_moe", (("batched_experts", True),)),
    Change((0, 20, 0), "each pipeline stage settles its blocks by the layers that it holds", "platforms/interface.py",
           (("stages_settle", True),)),
    Change((0, 20, 0), "on Intel's GPUs blocks beside gated delta nets are multiples of 64 tokens", "platforms/xpu.py",
           (("intel_delta_block", 64),)),
    Change((0, 20, 0), "Nemotron-H's states are kept in 32 bit where the config states no format, not in 16",
           "model_executor/models/config.py", (("silent_state", "fp32"),)),
    Change((0, 20, 0), "compressed attention comes, with buffers of some gigabytes", "public logs",
           (("early_compressed", True),), sure=False),
    Change((0, 20, 0), "a step must hold an image, audio or video of Gemma 4 whole", "platforms/cuda.py; vllm-project/vllm#42687",
           (("items_whole", True),), sure=False),
    Change((0, 20, 1), "the printed size is concurrency x max_model_len",
           "v1/core/kv_cache_utils.py", (("token_line", "concurrency"),)),
    Change((0, 22, 0), "the default step grows to the longest image, audio or video that it must hold", "engine/arg_utils.py",
           (("items_raise_steps", True),)),
    Change((0, 22, 0), "the second model runner serves Qwen3 in 16 bit; it estimates no CUDA graphs", "config/vllm.py",
           (("second_named", frozenset({"Qwen3ForCausalLM"})), ("second_plain", True))),
    Change((0, 23, 0), "the second model runner serves Llama and Mistral in 16 bit too", "config/vllm.py",
           (("second_named", frozenset({"Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"})),)),
    Change((0, 24, 0), "the second model runner serves six classes, in any format", "config/vllm.py",
           (("second_named", FIRST_SERVED | {"Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"}), ("second_plain", False))),
    Change((0, 24, 0), "Marlin pads inputs to its tiles; compressed-tensors' experts refuse ranks that cut groups of scales",
           "mixed_precision/marlin.py, compressed_tensors_moe_wna16.py", (("padded_tiles", True), ("expert_groups_checked", True))),
    Change((0, 25, 0), "compressed-tensors' layers name the groups that ranks would cut",
           "schemes/compressed_tensors_wNa16.py", (("groups_named", True),)),
    Change((0, 25, 0), "the second model runner serves dense models without recurrent state, without running their encoders first",
           "config/vllm.py", (("second_named", FIRST_SERVED), ("second_others", "dense"))),
    Change((0, 26, 0), "the second model runner serves Inkling and LongCat-Flash with n-grams, and copies no logits",
           "config/vllm.py, v1/worker/gpu/sample/sampler.py", (("second_named", NEXT_SERVED), ("second_logits", "as they are"))),
    Change((0, 26, 0), "windows are charged for the step in flight too; hybrids cache prefixes by default",
           "v1/kv_cache_interface.py, config/model.py", (("overlap", "dense"), ("hybrid_prefix_caching", True))),
    Change((0, 26, 0), "latents whose parts of a head no kernel for prompts has are refused", "v1/attention/backends/mla/prefill",
           (("prefill_sizes", True),)),
    Change((0, 27, 0), "concurrency counts each group's own pages; blocks of latents beside states are multiples of 128",
           "v1/core/kv_cache_utils.py, platforms/interface.py", (("first_page", False), ("latent_state_block", 128))),
    Change((0, 27, 0), "the cache has a window only where all listed layers have one", "engine/arg_utils.py",
           (("cache_window", "all listed"),)),
    Change((0, 27, 0), "the second model runner serves Kimi-K3, runs encoders in its profile, and copies logits to fp32",
           "config/vllm.py, v1/worker/gpu: model_runner.py, sample/sampler.py",
           (("second_named", NEXT_SERVED | {"KimiK3ForConditionalGeneration"}), ("second_encodes", True), ("second_logits", "copied to fp32"))),
    Change((0, 28, 0), "the second model runner serves DeepSeek-V4, not on AMD, and copies no logits in its profile",
           "config/vllm.py, v1/worker/gpu/sample/sampler.py",
           (("second_named", NEXT_SERVED | {"KimiK3ForConditionalGeneration", "DeepseekV4ForCausalLM"}),
            ("second_not_amd", frozenset({"DeepseekV4ForCausalLM"})), ("second_logits", "as they are"))),
    Change((0, 28, 0), "prefix caching keeps states at the ends of blocks, whatever the recurrence",
           "model_executor/models/config.py", (("cached_states", "block ends"),)),
    Change((0, 28, 0), "steps of 16,384 tokens from 160 GiB", "engine/arg_utils.py",
           (("batches", (Batches(16384, 1024), _LARGE, _SMALL)),)),
    Change((0, 29, 0), "one block is withheld when the longest request is checked; pages of all sizes are packed; every "
           "model runs a second step while one is in flight", "v1/core/kv_cache_planning.py, config/vllm.py",
           (("null_block", True), ("tuples", False), ("overlap", "always"))),
    Change((0, 29, 0), "the second model runner serves every class, and estimates CUDA graphs", "config/vllm.py, v1/worker/gpu/cudagraph_utils.py",
           (("second_others", "all"), ("second_not_amd", frozenset({"DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM"})),
            ("second_graphs", True))),
    Change((0, 29, 0), "scales of fp8 experts' blocks are refined where tensor ranks cut inside a block",
           "layers/fused_moe/oracle/fp8.py refine_fp8_moe_block_shape", (("refined_blocks", True),)),
    Change((0, 30, 0), "yarn's factor is taken to be in the stated length already", "config/model.py",
           (("yarn_stretches", False),)),
    Change((0, 30, 0), "GLM-5 has the first model runner on AMD", "config/vllm.py",
           (("second_not_amd", frozenset({"DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM", "GlmMoeDsaForCausalLM"})),)),
    Change((0, 30, 0), "GPTQ weights in the order of activations (desc_act) are refused",
           "layers/quantization/utils/gptq_utils.py", (("gptq_order", False),)),
    Change((0, 31, 0), "compressed attention holds what is counted and little more", "public logs",
           (("early_compressed", False),), sure=False),
    Change((0, 32, 0), "an indexer has room for 16 times the keys of a request above 262,144 tokens, not 40 times",
           "config/vllm.py sparse_mla_prefill_workspace_factor", (("long_gathered", 16),)),
    Change((0, 32, 0), "the second model runner serves every class on AMD too", "config/vllm.py", (("second_not_amd", frozenset()),)),
    Change((0, 32, 0), "Mamba-2 prefills export one more state for prefix caching",
           "layers/mamba/mamba_mixer2.py", (("checkpoints", (("mamba2", 1),)),)),
    Change((0, 33, 0), "the second model runner's profile warms its sampler up, with logits in fp32", "v1/worker/gpu/model_runner.py _dummy_sampler_run",
           (("second_logits", "second runner"),)),
    Change((0, 33, 0), "gated delta nets export one more state too, at multiples of 64 tokens; windows pick their own block; max_model_len is "
           "lowered to a draft model's; memory that a GPU "
           "shares with the CPU is read, so that it gets a large one's steps, but for a GB10",
           "layers/mamba/gdn/qwen_gdn_linear_attn.py, layers/attention/attention.py, engine/arg_utils.py, platforms/cuda.py",
           (("checkpoints", (("mamba2", 1), ("gated delta net", 64))), ("window_blocks", True),
            ("draft_limits", True), ("slow_capabilities", frozenset({(12, 1)})), ("shared_memory_read", True))),
)  # fmt: skip


_WRITTEN = re.compile(
    r"v?(?P<major>\d+)\.(?P<minor>\d+)(\.(?P<patch>\d+)(\.\d+)?)?(?P<before>\.?(rc|a|b|dev)\d*)?(\.?post\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?",
    re.ASCII,
)
"""A release as people type it, and as `vllm --version` prints it."""


@cache
def parse(name: str) -> Version:
    """`0.19.0`, `0.19` or `v0.6.4.post1+cu121` as numbers: of the release that it belongs to.

    Raises: UnknownName.
    """
    found = _WRITTEN.fullmatch(name.strip().lower())
    if found is None:
        raise UnknownName(f"{name!r} is not a vLLM version", hint=f"write it like vllm@{text(NEWEST)}")
    return int(found["major"]), int(found["minor"]), int(found["patch"] or 0)


def early(name: str) -> bool:
    """Whether a version is from before its release: a candidate or a build of the day."""
    return re.search(r"rc|dev|\d[ab]\d", name.lower().partition("+")[0]) is not None


def text(version: Version) -> str:
    """`0.19.0`."""
    return ".".join(map(str, version))


@cache
def rules(version: Version = NEWEST) -> Rules:
    """The rules of a version: every change up to it, in order."""
    held: dict[str, object] = {}
    for change in CHANGES:
        if change.since <= version:
            held.update(change.values)
    return Rules(version, **held)  # type: ignore[arg-type] # the table's values are of the fields' types
