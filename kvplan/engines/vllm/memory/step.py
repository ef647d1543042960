"""What one step of vLLM's start-up profile holds on the fullest rank, counted from the model's tensors and the flags.

Source: vLLM 0.33 v1/worker/gpu_model_runner.py profile_run, layers/fused_moe/modular_kernel.py and experts/*: workspace_shapes;
of sparse attention layers/sparse_attn_indexer.py and models/deepseek_v4: attention.py, nvidia/flashmla.py, nvidia/model.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from kvplan.arch.layers import Compressed, Latent
from kvplan.arch.model import Model
from kvplan.arch.traits import OTHER_ACTIVATION
from kvplan.engines.base import Options
from kvplan.engines.vllm.memory.dimensions import Dimensions, dimensions
from kvplan.engines.vllm.memory.encoder import NOTHING, encoded
from kvplan.engines.vllm.memory.made import NONE_MADE, Made, made
from kvplan.engines.vllm.memory.mixers import mixing
from kvplan.engines.vllm.memory.runner import is_second
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.hardware.gpu import Gpu
from kvplan.units import MIB

HALF = 2
"""Bytes of an activation."""
ROW_PADDING = 64
"""Words that logits are padded to."""
INDEX_SCORES = 512 * MIB
"""Room that the profile holds for an indexer's scores. Source: envs.py VLLM_SPARSE_INDEXER_MAX_LOGITS_MB."""
GATHERED, LONG = 40, 256 * 1024
"""An indexer's keys that are gathered at once, in lengths of a request; lengths above which newer versions gather fewer."""
PROMPTS = 4
"""Prompts whose compressed entries are gathered at once. Source: models/deepseek_v4/attention.py PREFILL_CHUNK_SIZE."""
KERNEL_HEADS = 64
"""Query heads of a rank are padded to a multiple of it, with compressed entries."""

Runs = Literal["never", "possibly", "likely"]
"""Whether a kernel does."""
FP4_KERNELS = (10, 11, 12)
"""GPUs that vLLM's own kernel for NVFP4 experts runs on, by compute capability. Source: CutlassExpertsFp4._supports_current_device."""
COPIES, STATES = 3, 5
"""What it has beside its rooms, for each expert that a token picks: inputs in the experts' order, outputs in the tokens', and those
weighted. And hidden states: the residual, the layer's input and output, the shared experts' and the sum. Its rooms are twice
what its first half puts out, or its inputs, and once that again.
Source: vLLM 0.20 and 0.33 fused_moe/experts/cutlass_moe.py run_cutlass_moe_fp4 and CutlassExpertsFp4.workspace_shapes; logs of
Gemma-4-26B (8,192 and 16,384 tokens on an RTX 5090), which leave 1.9 and 3.9 GiB for what is counted as 1.97 and 3.94."""


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes, one number a part."""

    words: int
    """Logits of all sequences, in elements."""
    hidden: int
    """Hidden states of all tokens."""
    layer: int
    """What the widest layer has beside them at once."""
    gathered: int
    """What a mixture's layer has, when its rooms don't stay."""
    experts: int
    """Rooms that mixtures gather tokens in."""
    towers: int
    """Embeddings of images that stay while text is read."""
    encoder: int
    """Of images, while it runs, before any text."""
    table: int
    """A copy of the embedding that kernels are measured on while they are compiled; a start that finds them compiled has none."""
    expert_bits: int
    """Of an expert's weights, 0 without experts."""
    keys: int = 0
    """Room that sparse attention gathers keys and entries in; it is the same room that experts use."""
    held: int = 0
    """Of that copy of the embedding, what the allocator keeps and counts as taken beside all that."""
    copied: int = 0
    """Of `gathered`, what a kernel copies that may or may not be the one that runs."""
    made: Made = NONE_MADE
    """Buffers that are there before it."""
    staged: bool = False
    """Whether one rank embeds and another samples."""


class Steps(NamedTuple):
    """The step at each end of the sizes that nobody states; one and the same where all are stated."""

    low: Step
    likely: Step
    high: Step


def steps(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> Steps:
    """The profile's step: max_num_batched_tokens tokens of max_num_seqs sequences."""
    ends = dimensions(model, settings.parallel)
    compiles = options.graphs and rules.tables_copied
    low, likely = (_step(end, model, gpu, settings, rules, most=False) for end in (ends.low, ends.likely))
    high = _step(ends.high, model, gpu, settings, rules, most=True)
    if not compiles:
        return Steps(*(replace(each, table=0) for each in (low, likely, high)))
    if rules.copies_held:
        likely, high = (replace(each, held=each.table) for each in (likely, high))
    return Steps(replace(low, table=0), likely, high)


def _step(sizes: Dimensions, model: Model, gpu: Gpu, settings: Settings, rules: Rules, *, most: bool) -> Step:
    second = is_second(model, gpu, settings, rules)
    memory = gpu.memory.value
    images = (
        encoded(model, sizes.hidden, memory, settings, rules, second=second, most=most) if sizes.towers else NOTHING
    )
    rows = -(-sizes.vocabulary // (ROW_PADDING * settings.parallel.tp)) * ROW_PADDING
    tokens, hidden, experts = settings.tokens, sizes.hidden, sizes.experts
    gathered = HALF * tokens * experts.picked
    widest = max(2 * experts.width, experts.inputs)
    kernel = _copies(model, gpu, settings, rules)
    copies = COPIES * gathered * experts.inputs if kernel == "likely" or (most and kernel == "possibly") else 0
    rooms = gathered * (max(2 * experts.outputs, experts.inputs) + experts.outputs) + STATES * HALF * tokens * hidden
    return Step(
        words=min(settings.sequences, tokens) * -(-sizes.vocabulary // ROW_PADDING) * ROW_PADDING,
        hidden=HALF * tokens * hidden,
        layer=max(
            HALF * tokens * (3 * sizes.width + 3 * hidden),
            HALF * tokens * (mixing(model, settings.parallel) + 2 * hidden),
            _attention(sizes, model, settings),
        ),
        gathered=(rooms + copies if copies else gathered * (widest + experts.width)) + HALF * tokens * hidden,
        experts=gathered * (max(experts.width, experts.inputs) + widest),
        towers=images.kept,
        encoder=images.running,
        table=0 if sizes.towers else HALF * rows * hidden,
        expert_bits=experts.bits,
        keys=_keys(model, settings, rules),
        copied=copies if kernel == "possibly" else 0,
        made=made(model, sizes, settings, rules, second=second),
        staged=settings.parallel.pp > 1,
    )


def _copies(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> Runs:
    """Whether vLLM's own kernel for NVFP4 experts runs them, which copies what they read and put out.

    --moe-backend cutlass asks for it, and where FlashInfer's don't run, as for GELU before 0.24, it is the next; it has no
    expert parallelism. Source: fused_moe/oracle/nvfp4.py select_nvfp4_moe_backend.
    """
    capability, _ = gpu.compute_capability or (0, 0)
    runs = gpu.vendor == "nvidia" and capability in FP4_KERNELS and settings.parallel.ep == 1
    if model.weights is None or not runs:
        return "never"
    if not any(
        weight.routed and weight.stored.name == "nvfp4" for block, _ in model.weights.distinct for weight in block
    ):
        return "never"
    return "likely" if OTHER_ACTIVATION in model.traits and not rules.gelu_rooms else "possibly"


def _attention(sizes: Dimensions, model: Model, settings: Settings) -> int:
    """The widest layer of sparse attention: scores, streams before and after it, padded outputs beside queries."""
    found = [cache for cache, _ in model.distinct if isinstance(cache, Latent | Compressed)]
    scores = INDEX_SCORES if any(cache.indexer is not None for cache in found) else 0
    heads = max((cache.heads * cache.dim for cache in found if isinstance(cache, Compressed)), default=0)
    if not heads:
        return scores
    own = -(-heads // settings.parallel.tp)
    dim = max(cache.dim for cache in found if isinstance(cache, Compressed))
    padded = -(-own // (dim * KERNEL_HEADS)) * dim * KERNEL_HEADS
    return scores + HALF * settings.tokens * (2 * sizes.streams * sizes.hidden + own + padded)


def _keys(model: Model, settings: Settings, rules: Rules) -> int:
    """Keys of indexers and compressed entries, gathered for prompts that are being read."""
    length, found = settings.length, [cache for cache, _ in model.distinct if isinstance(cache, Latent | Compressed)]
    gathered = GATHERED if length <= LONG else rules.long_gathered
    sizes = [0]
    for cache in found:
        ratio = cache.ratio if isinstance(cache, Compressed) else 1
        if ratio is None:
            continue  # a window alone compresses nothing
        if cache.indexer is not None:
            sizes.append(gathered * length // ratio * cache.indexer.stored.row_bytes(cache.indexer.dim))
        if isinstance(cache, Compressed):
            sizes.append(PROMPTS * (-(-length // ratio) + cache.window + settings.tokens) * HALF * cache.dim)
    return max(sizes)
