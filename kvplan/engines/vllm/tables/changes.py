"""What each vLLM version does differently, as data: one row a change, with the release it starts at and where it was read.

Every release named here was unpacked and read on both sides of the change, except where `sure` is False.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kvplan.engines.vllm.tables.rules import Batches, Rules
from kvplan.engines.vllm.tables.versions import NEWEST, Version


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

_HEADS = frozenset({"mtp", "eagle", "eagle3", "dflash"})

CHANGES: tuple[Change, ...] = (
    Change((0, 7, 0), "long prompts are cut into steps of 2,048", "config.py", (("long_prompt_steps", 2048),), sure=False),
    Change((0, 8, 0), "one engine (V1): steps of 8,192 tokens and 1,024 sequences from 70 GiB, prompts always cut into steps",
           "engine/arg_utils.py", (("batches", (_LARGE, _LARGE, _SMALL)), ("always_chunked", True)), sure=False),
    Change((0, 8, 0), "latents on Hopper have blocks of 64 tokens", "platforms/cuda.py check_and_update_config",
           (("latent_blocks", ((9, 64),)),)),
    Change((0, 8, 0), "prompts are cut into steps even where that is switched off", "engine/arg_utils.py",
           (("unchunked", False),)),
    Change((0, 8, 0), "tokens are picked by FlashInfer where it is installed", "v1/sample/ops/topk_topp_sampler.py",
           (("flashinfer_picks", True),), sure=False),
    Change((0, 8, 3), "model_max_length replaces the other lengths that a config states", "config.py _get_and_verify_max_len",
           (("own_length", True),)),
    Change((0, 9, 0), "Qwen2 and its like take windows on all layers", "model_executor/models/qwen2.py", (("whole_windows", True),)),
    Change((0, 9, 0), "an A100 is given a small GPU's steps", "engine/arg_utils.py", (("slow_but_large", ("a100",)),)),
    Change((0, 9, 1), "windows and states have block tables of their own; the printed size is blocks / groups x block",
           "v1/core/kv_cache_utils.py", (("groups", True), ("token_line", "smallest_group")), sure=False),
    Change((0, 10, 0), "the check of the longest request counts chunked attention's chunks", "v1/kv_cache_interface.py ChunkedLocalAttentionSpec",
           (("chunks_checked", True),)),
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
    Change((0, 11, 0), "the start-up profile makes the room that latents of earlier tokens are expanded in",
           "v1/attention/backends/mla/common.py MLACommonImpl.forward", (("contexts", "dense"),)),
    Change((0, 11, 1), "kernels are measured while they are compiled, on a copy of the embedding", "config/compilation.py benchmark_combo_kernel; "
           "public logs", (("tables_copied", True),)),
    Change((0, 11, 1), "tokens are picked by FlashInfer only where VLLM_USE_FLASHINFER_SAMPLER asks for it",
           "v1/sample/ops/topk_topp_sampler.py", (("flashinfer_picks", False),)),
    Change((0, 11, 1), "without --max-model-len, a model of longrope gets its original length", "config/model.py",
           (("longrope_original", True),)),
    Change((0, 11, 1), "a default step has no more tokens than max_num_seqs x max_model_len", "engine/arg_utils.py _set_default_max_num_seqs_and_batched_tokens_args",
           (("steps_capped", True),)),
    Change((0, 11, 1), "prompts are kept whole again where cutting them is switched off", "engine/arg_utils.py",
           (("unchunked", True),)),
    Change((0, 11, 1), "prefix caching keeps a state at every block of Mamba's layers, and is turned off for other recurrences",
           "model_executor/models/config.py; vllm-project/vllm#26201", (("cached_states", "every block of Mamba"),)),
    Change((0, 12, 0), "rotary positions are refused that can't be built as the config says", "layers/rotary_embedding/__init__.py get_rope",
           (("rotations_checked", True),)),
    Change((0, 12, 0), "rope_parameters is read where there is no rope_scaling", "transformers_utils/config.py patch_rope_parameters",
           (("rope_parameters_read", True),)),
    Change((0, 12, 0), "groups take the larger kind's layers up to 1.25 times the smaller kind's",
           "v1/core/kv_cache_utils.py", (("unbalanced", 1.25),)),
    Change((0, 12, 0), "the start-up profile blows embeddings up to the tokens of the longest item",
           "v1/worker/gpu_model_runner.py profile_run", (("items_expanded", "to the item"),)),
    Change((0, 12, 0), "mixtures run 16,384 tokens at once, not 65,536", "envs.py VLLM_FUSED_MOE_CHUNK_SIZE", (("chunk", 16 * 1024),)),
    Change((0, 13, 0), "the start-up profile keeps embeddings as they are",
           "v1/worker/gpu_model_runner.py profile_run", (("items_expanded", "not"),)),
    Change((0, 14, 0), "the longest request is checked group by group, padding included; chunked attention has groups",
           "v1/core/kv_cache_utils.py, envs.py", (("by_layer", False), ("chunk_groups", True))),
    Change((0, 14, 0), "`auto` is the cache format that ModelOpt's checkpoints state", "utils/torch_utils.py resolve_kv_cache_dtype_string",
           (("algorithm_read", True),)),
    Change((0, 14, 0), "rooms that 16-bit experts gather tokens in stay allocated too", "v1/worker/workspace.py; public logs",
           (("rooms", frozenset({8, 16})),), sure=False),
    Change((0, 15, 0), "prefix caching keeps states of other recurrences than Mamba's at the ends of blocks (align)",
           "model_executor/models/config.py", (("cached_states", "block ends, every block of Mamba"),)),
    Change((0, 15, 0), "attention reads the kv_cache_scheme of compressed-tensors; read in 0.14.1 and 0.15.1", "attention/layer.py",
           (("scheme_read", True),), sure=False),
    Change((0, 15, 0), "latents on data-center Blackwell have blocks of 64 tokens", "platforms/cuda.py check_and_update_config",
           (("latent_blocks", ((9, 64), (10, 64))),)),
    Change((0, 16, 0), "it does so for sparse attention's latents too", "layers/attention/mla_attention.py MLAAttention.forward_impl",
           (("contexts", "all"),)),
    Change((0, 17, 0), "logits are sorted in Triton; Hopper's and data-center Blackwell's ranks add up and normalize in one kernel",
           "v1/sample/ops/topk_topp_sampler.py, config/vllm.py enable_allreduce_rms_fusion",
           (("sampler", "sorted in Triton"), ("fused_sums", frozenset({9, 10})))),
    Change((0, 18, 0), "blocks of latents are what the kernels want", "platforms/cuda.py", (("latent_blocks", ()),)),
    Change((0, 18, 0), "mixtures run all tokens at once", "fused_moe/modular_kernel.py", (("chunk", None),)),
    Change((0, 18, 0), "libraries outside the allocator take twice the room", "public logs", (("libraries", True),), sure=False),
    Change((0, 18, 0), "groups take the larger kind's layers up to 1.5 times the smaller kind's",
           "v1/core/kv_cache_utils.py", (("unbalanced", 1.5),)),
    Change((0, 19, 0), "a sliding_window of 0 is none", "config/model.py", (("zero_is_none", True),)),
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
    Change((0, 23, 0), "a block of packed pages has of each size as many as any group has, and no whole tuples",
           "v1/core/kv_cache_utils.py _bucket_layers_by_page_size", (("stride", "slots"),)),
    Change((0, 24, 0), "layers that take an earlier layer's choice have no indexer", "models/deepseek_v2.py",
           (("indexers_skipped", True),)),
    Change((0, 24, 0), "the second model runner serves six classes, in any format", "config/vllm.py",
           (("second_named", FIRST_SERVED | {"Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"}), ("second_plain", False))),
    Change((0, 24, 0), "the second model runner drafts by DFlash", "config/vllm.py _get_v2_model_runner_unsupported_features",
           (("second_drafts", _HEADS),)),
    Change((0, 24, 0), "Transformers 5 is required, which asks more of what a config says of rotary positions, and takes fewer nulls", "Requires-Dist of the wheels",
           (("library", 5),)),
    Change((0, 24, 0), "caches of encoders' outputs are refused in fp8 below compute capability 8.9", "v1/attention/backends/triton_attn.py "
           "TritonAttentionImpl", (("encoders_checked", True),)),
    Change((0, 24, 0), "FlashInfer's kernels for NVFP4 experts have GELU", "fused_moe/experts/flashinfer_cutlass_moe.py _supports_activation",
           (("gelu_rooms", True),)),
    Change((0, 24, 0), "Marlin pads inputs to its tiles; compressed-tensors' experts refuse ranks that cut groups of scales",
           "mixed_precision/marlin.py, compressed_tensors_moe_wna16.py", (("padded_tiles", True), ("expert_groups_checked", True))),
    Change((0, 25, 0), "compressed-tensors' layers name the groups that ranks would cut",
           "schemes/compressed_tensors_wNa16.py", (("groups_named", True),)),
    Change((0, 25, 0), "the second model runner serves dense models without recurrent state, without running their encoders first",
           "config/vllm.py", (("second_named", FIRST_SERVED), ("second_others", "dense"))),
    Change((0, 26, 0), "the second model runner serves Inkling and LongCat-Flash with n-grams, and copies no logits",
           "config/vllm.py, v1/worker/gpu/sample/sampler.py", (("second_named", NEXT_SERVED), ("second_logits", "as they are"))),
    Change((0, 26, 0), "windows are charged for the step in flight too", "v1/kv_cache_interface.py", (("overlaps", True),)),
    Change((0, 26, 0), "latents whose parts of a head no kernel for prompts has are refused", "v1/attention/backends/mla/prefill",
           (("prefill_sizes", True),)),
    Change((0, 27, 0), "concurrency counts each group's own pages; blocks of latents beside states are multiples of 128",
           "v1/core/kv_cache_utils.py, platforms/interface.py", (("first_page", False), ("latent_state_block", 128))),
    Change((0, 27, 0), "groups of packed pages lie over each other in a block, windows as large as they are",
           "v1/core/kv_cache_utils.py _get_packed_kv_cache_layout, _get_kv_cache_groups_uniform_groups", (("stride", "overlaid"),)),
    Change((0, 27, 0), "DeepSeek-V4 keeps streams of hidden states only for a draft", "models/deepseek_v4/nvidia/model.py _mtp_hidden_buffer",
           (("streams_kept", False),)),
    Change((0, 27, 0), "image tokens that see each other both ways are no reason for anything where text alone is served",
           "config/model.py _supports_multimodal_for_mm_prefix", (("prefix_cleared", True),)),
    Change((0, 27, 0), "what the allocator holds of a step counts as taken, and the step's peak once more", "utils/mem_utils.py memory_profiling",
           (("copies_held", True),)),
    Change((0, 27, 0), "buffers that the model runner makes before the start-up profile count", "utils/mem_utils.py memory_profiling",
           (("made_counted", True),)),
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
    Change((0, 28, 0), "the room for expanded latents has whole blocks, and not one of each sequence",
           "layers/attention/mla_attention.py align_mla_chunked_context_workspace_size", (("contexts_by_block", False),)),
    Change((0, 28, 0), "hybrids cache prefixes by default", "engine/arg_utils.py", (("hybrid_prefix_caching", True),)),
    Change((0, 28, 0), "steps of 16,384 tokens from 160 GiB", "engine/arg_utils.py",
           (("batches", (Batches(16384, 1024), _LARGE, _SMALL)),)),
    Change((0, 29, 0), "one block is withheld when the longest request is checked; pages of all sizes are packed", "v1/core/kv_cache_planning.py, config/vllm.py",
           (("null_block", True), ("tuples", False))),
    Change((0, 29, 0), "the second model runner serves every class, and estimates CUDA graphs", "config/vllm.py, v1/worker/gpu/cudagraph_utils.py",
           (("second_others", "all"), ("second_not_amd", frozenset({"DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM"})),
            ("second_graphs", True))),
    Change((0, 29, 0), "the copy that kernels are measured on is seen to count once, by the same sum", "public logs",
           (("copies_held", False),), sure=False),
    Change((0, 29, 0), "scales of fp8 experts' blocks are refined where tensor ranks cut inside a block",
           "layers/fused_moe/oracle/fp8.py refine_fp8_moe_block_shape", (("refined_blocks", True),)),
    Change((0, 30, 0), "yarn's factor is taken to be in the stated length already", "config/model.py",
           (("yarn_stretches", False),)),
    Change((0, 30, 0), "the second model runner drafts by EAGLE-3 beside pipeline stages", "config/vllm.py _get_v2_model_runner_unsupported_features",
           (("second_staged", True),)),
    Change((0, 30, 0), "GLM-5 has the first model runner on AMD", "config/vllm.py",
           (("second_not_amd", frozenset({"DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM", "GlmMoeDsaForCausalLM"})),)),
    Change((0, 30, 0), "GPTQ weights in the order of activations (desc_act) are refused",
           "layers/quantization/utils/gptq_utils.py", (("gptq_order", False),)),
    Change((0, 31, 0), "the second model runner drafts by a model", "config/vllm.py _get_v2_model_runner_unsupported_features",
           (("second_drafts", _HEADS | {"model"}),)),
    Change((0, 32, 0), "the second model runner drafts by n-grams", "config/vllm.py _get_v2_model_runner_unsupported_features",
           (("second_drafts", _HEADS | {"model", "guessed"}),)),
    Change((0, 32, 0), "an indexer has room for 16 times the keys of a request above 262,144 tokens, not 40 times",
           "config/vllm.py sparse_mla_prefill_workspace_factor", (("long_gathered", 16),)),
    Change((0, 32, 0), "the second model runner serves every class on AMD too", "config/vllm.py", (("second_not_amd", frozenset()),)),
    Change((0, 32, 0), "Mamba-2 prefills export one more state for prefix caching",
           "layers/mamba/mamba_mixer2.py", (("checkpoints", (("mamba2", 1),)),)),
    Change((0, 33, 0), "the second model runner's profile warms its sampler up, with logits in fp32", "v1/worker/gpu/model_runner.py _dummy_sampler_run",
           (("second_logits", "second runner"),)),
    Change((0, 33, 0), "a cache in the other 16-bit format than the model runs in is refused", "config/vllm.py",
           (("either_float", False),)),
    Change((0, 33, 0), "gated delta nets export one more state too, at multiples of 64 tokens; windows pick their own block; max_model_len is "
           "lowered to a draft model's; memory that a GPU "
           "shares with the CPU is read, so that it gets a large one's steps, but for a GB10",
           "layers/mamba/gdn/qwen_gdn_linear_attn.py, layers/attention/attention.py, engine/arg_utils.py, platforms/cuda.py",
           (("checkpoints", (("mamba2", 1), ("gated delta net", 64))), ("window_blocks", True),
            ("draft_limits", True), ("slow_capabilities", frozenset({(12, 1)})), ("shared_memory_read", True))),
)  # fmt: skip


@cache
def rules(version: Version = NEWEST) -> Rules:
    """The rules of a version: every change up to it, in order."""
    held: dict[str, object] = {}
    for change in CHANGES:
        if change.since <= version:
            held.update(change.values)
    return Rules(version, **held)  # type: ignore[arg-type] # the table's values are of the fields' types
