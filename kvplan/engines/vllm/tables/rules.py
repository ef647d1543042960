"""What one release of vLLM does, as far as a plan depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kvplan.engines.vllm.tables.versions import OLDEST, Version


@dataclass(frozen=True, slots=True)
class Batches:
    """Default limits of one step: tokens and sequences."""

    tokens: int
    sequences: int


CacheWindow = Literal["stated", "unless interleaved", "all listed"]
TokenLine = Literal["blocks", "smallest_group", "concurrency"]
Stride = Literal["tuples", "slots", "overlaid"]
Drafting = Literal["mtp", "eagle", "eagle3", "dflash", "model", "at once", "guessed"]
Sampler = Literal["sorted in PyTorch", "sorted in Triton"]
SecondSampler = Literal["copied to fp32", "as they are", "second runner"]
Others = Literal["none", "dense", "all"]
Expanded = Literal["not", "to the budget", "to the item"]
Contexts = Literal["not", "dense", "all"]
CachedStates = Literal["refused", "off", "every block of Mamba", "block ends, every block of Mamba", "block ends"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What one release does; the defaults are those of the oldest that is known."""

    version: Version = OLDEST
    """The release."""
    read: bool = True
    """Whether it is the one that is asked about, and not the nearest known."""

    # memory
    utilization: float = 0.9
    """gpu_memory_utilization where nobody says."""
    graphs_counted: bool = False
    """Whether CUDA graphs are taken off the cache's memory."""
    libraries: bool = False
    """Whether libraries outside the allocator take the larger room."""
    rooms: frozenset[int] = frozenset()
    """Bits of the experts whose rooms for gathered tokens stay allocated."""
    chunk: int | None = 64 * 1024
    """Tokens that a mixture runs at once, None for all."""
    fused_sums: frozenset[int] = frozenset()
    """GPUs whose tensor ranks add up and normalize in one kernel, by major compute capability."""
    tables_copied: bool = False
    """Whether kernels that are compiled are measured on a copy of the embedding."""
    sampler: Sampler = "sorted in PyTorch"
    """What picks tokens from logits, by the room it takes."""
    flashinfer_picks: bool = False
    """Whether FlashInfer picks them, in less room, on NVIDIA's GPUs where it is installed, which nobody states."""
    long_gathered: int = 40
    """Keys of an indexer that the profile makes room for, in lengths of a request, where that is above 262,144 tokens;
    40 below."""
    copies_held: bool = False
    """Whether what the allocator holds of that copy counts as taken beside it."""
    made_counted: bool = False
    """Whether buffers count that the model runner makes before the start-up profile."""
    contexts: Contexts = "not"
    """Latent layers whose room for expanded contexts the start-up profile makes."""
    contexts_by_block: bool = True
    """Whether that room has a block of each sequence, however many those are."""
    gelu_rooms: bool = False
    """Whether FlashInfer's kernels for NVFP4 experts have GELU, so that vLLM's own, which copies more, is no longer the first."""
    streams_kept: bool = True
    """Whether DeepSeek-V4 keeps streams of hidden states for a draft that nobody asked for."""
    items_expanded: Expanded = "not"
    """What the start-up profile blows each image's or video's embeddings up to."""

    # the second model runner
    second_named: frozenset[str] = frozenset()
    """Classes that it serves."""
    second_plain: bool = False
    """Whether it serves those only dense and unquantized."""
    second_others: Others = "none"
    """Which of the other classes it serves too."""
    second_not_amd: frozenset[str] = frozenset()
    """Classes that it doesn't serve on AMD."""
    second_drafts: frozenset[Drafting] = frozenset({"mtp", "eagle", "eagle3"})
    """Ways of drafting that it has: of guesses, that by n-grams. With others the first runner serves."""
    second_staged: bool = False
    """Whether it drafts by EAGLE-3 beside pipeline stages."""
    second_logits: SecondSampler = "copied to fp32"
    """What its profile makes of logits."""
    second_encodes: bool = False
    """Whether its profile runs the encoder of images."""
    second_graphs: bool = False
    """Whether it estimates CUDA graphs."""

    # steps
    batches: tuple[Batches, Batches, Batches] = (Batches(2048, 256), Batches(2048, 256), Batches(2048, 256))
    """Default limits for GPUs from 160 GiB, from 70 GiB, and others."""
    slow_but_large: tuple[str, ...] = ()
    """Names of GPUs with a large one's memory that are given a small one's steps."""
    slow_capabilities: frozenset[tuple[int, int]] = frozenset()
    """The same by compute capability."""
    shared_memory_read: bool = False
    """Whether the size of memory that a GPU shares with the CPU is known when defaults are picked, or taken for
    nothing."""
    always_chunked: bool = False
    """Whether prompts are cut into steps at any length, and not only above 32,768 tokens."""
    long_prompt_steps: int = 512
    """Tokens of those steps, before that."""
    steps_capped: bool = False
    """Whether a default step has no more tokens than all requests of the longest length together."""
    unchunked: bool = True
    """Whether prompts are kept whole where that is asked for."""
    batched_experts: bool = False
    """Whether a step has 256 tokens by default where experts exchange them in batches."""
    overlaps: bool = False
    """Whether windows are charged for a step that is scheduled while one runs."""
    items_whole: bool = False
    """Whether a step must hold an image whole where its tokens see each other both ways."""
    items_raise_steps: bool = False
    """Whether the default grows to that."""
    prefix_cleared: bool = False
    """Whether such tokens are for nothing where text alone is served, and kernels are chosen so."""

    # groups of layers, and blocks
    groups: bool = False
    """Whether windows and states have block tables of their own, or blocks for every token."""
    chunk_groups: bool = False
    """The same for chunked attention."""
    unbalanced: float = 0.0
    """Groups take the larger kind's number of layers when it is below this many times the smaller kind's."""
    tuples: bool = True
    """Whether packed pages are grouped in equal tuples of layers, and the longest request is checked in whole ones."""
    stride: Stride = "tuples"
    """What one block of those has room for: as many tuples as any group has, or of each page size as many as any, or
    the largest group."""
    stages_settle: bool = False
    """Whether each pipeline stage settles blocks by its own layers."""
    algorithm_read: bool = False
    """Whether `auto` means the cache format that a ModelOpt checkpoint states."""
    scheme_read: bool = False
    """The same of a compressed-tensors checkpoint's kv_cache_scheme."""
    indexers_skipped: bool = False
    """Whether a layer that takes an earlier layer's choice has no indexer."""
    latent_blocks: tuple[tuple[int, int], ...] = ()
    """By a GPU's major compute capability, what blocks of latents are multiples of."""
    latent_state_block: int = 64
    """What blocks of latents beside states are multiples of."""
    intel_delta_block: int = 1
    """What blocks beside gated delta nets are multiples of on Intel's GPUs."""
    window_blocks: bool = False
    """Whether a window picks its own block."""

    # what is printed and checked
    token_line: TokenLine = "blocks"  # noqa: S105 - a line of the log
    """What "GPU KV cache size" counts."""
    first_page: bool = True
    """Whether concurrency counts in pages of the first group."""
    by_layer: bool = True
    """Whether the check of the longest request adds up layers, before pages are padded."""
    chunks_checked: bool = False
    """Whether that counts chunks as chunks, and not as layers that keep every token."""
    null_block: bool = False
    """Whether that check withholds a block."""

    # windows and lengths
    cache_window: CacheWindow = "stated"
    """When layers without a window of their own get the config's: always, unless full layers are listed beside
    windowed ones, or only where all listed are windowed."""
    whole_windows: bool = False
    """Whether classes that refuse windows on some layers take them on all."""
    draft_limits: bool = False
    """Whether a draft model's length is the target's too."""
    longrope_original: bool = False
    """Whether the default length is the original one under longrope."""
    yarn_stretches: bool = True
    """Whether yarn's factor multiplies the original length."""
    own_length: bool = False
    """Whether model_max_length replaces the other lengths that a config states."""
    rope_parameters_read: bool = False
    """Whether rope_parameters, as Transformers 5 writes configs, is read, and not rope_scaling and rope_theta alone."""
    zero_is_none: bool = False
    """Whether a window of 0 tokens is none."""

    # recurrent state
    hybrid_prefix_caching: bool = False
    """Whether it is kept at block boundaries too, by default."""
    cached_states: CachedStates = "refused"
    """What prefix caching keeps of it where that is asked for: nothing, as the start fails or it is turned off; a
    state at every block of Mamba's layers, and nothing of others or theirs at the ends of a request's blocks; or
    the latter of all."""
    checkpoints: tuple[tuple[str, int], ...] = ()
    """Recurrences whose prefill exports one more state, and the tokens it is aligned to."""
    silent_state: str = "fp16"
    """Format of Nemotron-H's where its config states none."""

    # what doesn't start
    prefill_sizes: bool = False
    """Whether prompts of latents are refused in sizes without a kernel."""
    rotations_checked: bool = False
    """Whether every class hands on what the config says of rotary positions, so that what can't be built is refused."""
    library: int = 4
    """Major version of the Transformers library that it requires."""
    encoders_checked: bool = False
    """Whether caches of encoders' outputs are refused in fp8 below compute capability 8.9."""
    either_float: bool = True
    """Whether the cache may be kept in the other 16-bit format than the model runs in."""
    gptq_order: bool = True
    """Whether GPTQ weights in the order of activations load."""
    refined_blocks: bool = False
    """Whether experts' scales of blocks are refined where tensor ranks cut inside a block."""
    padded_tiles: bool = False
    """Whether Marlin pads inputs to its tiles."""
    expert_groups_checked: bool = False
    """Whether compressed-tensors' experts refuse cut groups of scales."""
    groups_named: bool = False
    """Whether its other layers say so when they do."""

    def steps_in_flight(self, pp: int, overlapped: bool, second: Callable[[], bool]) -> int:  # noqa: FBT001 - a flag's value
        """Steps that may be scheduled before the oldest has settled, as windows are charged for them.

        second: whether the second model runner serves the model; the first doesn't overlap those of pipeline stages.
        Source: vLLM 0.24 to 0.33 config/vllm.py max_concurrent_batches.
        """
        if not self.overlaps:
            return 1
        return pp + 1 if overlapped and (pp == 1 or second()) else pp
