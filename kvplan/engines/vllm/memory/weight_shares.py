"""Weights that tensor ranks can't share: widths, vocabularies, and blocks of scales that a rank would cut.

Source: vLLM 0.33 distributed/utils.py, layers/linear.py, quantization/utils/fp8_utils.py, fused_moe/oracle/fp8.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

from kvplan.arch.layers import Attention
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel, divisors
from kvplan.arch.storage import FP8_BLOCK_SOURCE
from kvplan.arch.weights import Weight, Weights
from kvplan.engines.vllm.layout.views import VOCABULARY_MULTIPLE, pads_blocks
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.architectures import classes, named
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotSplit
from kvplan.text import any_of

WHOLE_KV_HEADS = ("GptOssForCausalLM",)
"""Classes that don't copy KV heads to more ranks than they have. Source: models/gpt_oss.py."""

WHOLE_TOWERS = ("InternVL", "InternS1", "H2OVL", "KimiK25", "MuseGlimmer", "NemotronH", "Llama_Nemotron")
"""How the classes begin whose towers are whole on every rank where ranks can't share their heads; for others the start fails.

Source: models/intern_vit.py, kimi_k25_vit.py, muse_glimmer.py: is_vit_use_data_parallel(num_heads); others call
dist_utils.divide: siglip.py, clip.py, pixtral.py, qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py, glm4_1v.py and more.
"""

SHARED, MATRIX = ("mlp", "shared_experts", "experts"), 2
"""Components whose matrices ranks share, and the dimensions of one."""

NOT_LAST = ("q_proj", "k_proj", "gate_proj")
"""Matrices that vLLM merges with others after them."""

REFINED, FP8_KERNELS = 32, (8, 9)
"""Least block that experts' scales are refined to, and the first GPUs with the kernels for it."""

UNMERGED = ("q_b_proj", "kv_b_proj", "g_proj")
"""Matrices cut by outputs that vLLM merges with no others."""


def check(model: Model, settings: Settings, rules: Rules, device: tuple[int, int]) -> None:
    """Nothing, if every rank gets its share.

    Raises: NotSplit.
    """
    _vocabulary(model, settings)
    _kv_heads(model, settings)
    if model.weights is not None:
        _widths(model, model.weights, settings)
        _blocks(model, model.weights, settings)
        _expert_blocks(model, model.weights, settings, rules, device)


def _of_layers(weights: Weights) -> Iterator[Weight]:
    return (weight for layer, _ in weights.distinct for weight in layer)


def _vocabulary(model: Model, settings: Settings) -> None:
    """Embeddings are padded to 64 rows and then dealt equally. Source: layers/vocab_parallel_embedding.py."""
    ranks, rows = settings.parallel.tp, model.vocabulary
    padded = 0 if rows is None else -(-rows // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    if padded % ranks:
        works = [size for size in divisors(padded) if size <= max(ranks, 16) and model.splits_evenly(size)]
        raise NotSplit(
            f"vLLM can't split the vocabulary of {model.origin.id} by --tp {ranks}",
            cause=f"{padded} is not divisible by {ranks}",
            hint=f"tensor parallel sizes that work: {', '.join(map(str, works))}",
        )


def _kv_heads(model: Model, settings: Settings) -> None:
    if not named(model, WHOLE_KV_HEADS):
        return
    for cache, _ in model.distinct:
        if isinstance(cache, Attention) and cache.kv_heads < settings.parallel.tp:
            raise NotSplit(
                f"vLLM can't split {model.origin.id} by --tp {settings.parallel.tp}",
                cause=f"its class shares {cache.kv_heads} KV heads among ranks and copies none",
                hint=f"--tp {cache.kv_heads} at most",
            )


def _widths(model: Model, weights: Weights, settings: Settings) -> None:
    """Matrices are shared evenly. Source: distributed/utils.py divide, layers/fused_moe/layer.py."""
    parallel = settings.parallel
    if parallel.tp * parallel.dp == 1:
        return
    towers = not any(name.startswith(WHOLE_TOWERS) for name in classes(model))
    shared = (weight for weight in _of_layers(weights) if weight.component in SHARED)
    seen = (weight for weight in weights.towers if towers and weight.component == "vision")
    for weight in (*shared, *seen):
        if weight.split is None or len(weight.shape) < MATRIX or (weight.routed and parallel.ep > 1):
            continue
        size = weight.units or weight.shape[weight.split]
        ranks = parallel.tp * (parallel.dp if weight.routed else 1)
        if size % ranks:
            raise NotSplit(
                f"vLLM can't split {model.origin.id} by --tp {parallel.tp}",
                cause=f"{size} is not divisible by {ranks} ({weight.name})",
                hint="use a size that divides it" + (", or --ep for the experts" if weight.routed else ""),
            )


def _blocks(model: Model, weights: Weights, settings: Settings) -> None:
    """Matrices whose scales stand for blocks are cut between blocks only.

    Matrices that are merged into one (queries with keys and values, gates with ups) are excused, but for those of
    compressed-tensors, which have whole blocks even on one GPU, all but the last one of each.
    Source: layers/quantization/utils/fp8_utils.py validate_fp8_block_shape, layers/linear.py.
    """
    excused = weights.method != "compressed-tensors"
    for weight in (each for each in _of_layers(weights) if each.linear and not each.routed):
        if weight.split is None or weight.stored.group_rows <= 1 or pads_blocks(model.family, weight):
            continue
        block = weight.stored.group_rows if weight.split == 0 else weight.stored.group
        share = weight.on_rank(settings.parallel)[0][weight.split]
        if not share % block:
            continue
        merged = weight.split == 0 and not weight.name.endswith(UNMERGED)
        if share == weight.shape[weight.split] and not (merged and not excused and weight.name.endswith(NOT_LAST)):
            continue
        if merged and excused:
            continue
        side = "output_partition_size" if weight.split == 0 else "input_size_per_partition"
        raise NotSplit(
            f"vLLM can't split {model.origin.id} by --tp {settings.parallel.tp}",
            cause=f"Weight {side} = {share} is not divisible by weight quantization "
            f"{'block_n' if weight.split == 0 else 'block_k'} = {block} ({weight.name})",
            hint="fewer tensor ranks, or a checkpoint without blocks",
        )


class _Cut(NamedTuple):
    """A rank's share of an expert's inputs, in elements, that ends within a block of scales."""

    weight: Weight
    share: int

    @property
    def rows(self) -> int:
        """Of a block."""
        return self.weight.stored.group_rows

    @property
    def columns(self) -> int:
        """Of a block."""
        return self.weight.stored.group

    @property
    def refines(self) -> bool:
        """Whether smaller blocks, of a size that there are kernels for, would end where the share does."""
        fitting = gcd(self.rows, self.columns, self.share, self.weight.shape[0]) >= REFINED
        return fitting and self.weight.stored.source == FP8_BLOCK_SOURCE

    @property
    def sizes(self) -> str:
        """For a hint, the tensor sizes that cut between blocks."""
        return _sizes(self.weight.shape[1], max(self.rows, self.columns))


def _cuts(weights: Weights, parallel: Parallel) -> Iterator[_Cut]:
    for weight in (each for each in _of_layers(weights) if each.routed):
        rows, columns = weight.stored.group_rows, weight.stored.group
        if weight.split != 1 or rows <= 1:
            continue
        share = weight.on_rank(parallel)[0][1]
        if share % rows or (parallel.tp > 1 and share % columns):
            yield _Cut(weight, share)


def _expert_blocks(model: Model, weights: Weights, settings: Settings, rules: Rules, device: tuple[int, int]) -> None:
    """Experts' inputs are cut between blocks of scales; since 0.29 blocks are refined, down to 32, to fit the cut.

    Source: fused_moe/oracle/fp8.py refine_fp8_moe_block_shape, quantization/fp8.py Fp8MoEMethod of 0.28 and 0.29.
    """
    for cut in _cuts(weights, settings.parallel):
        if not (rules.refined_blocks and cut.refines):
            raise _unrefined(cut, model, settings.parallel, rules)
        if device < FP8_KERNELS:
            raise NotSplit(
                f"vLLM can't split the experts of {model.origin.id} by --tp {settings.parallel.tp}",
                cause="No FP8 MoE backend supports the deployment configuration: "
                f"blocks of {cut.rows} would have to be refined for {cut.share} inputs, "
                "which Triton's fp8 kernels do from compute capability 8.9 on",
                hint=f"{cut.sizes}a newer GPU, or a checkpoint without blocks",
            )


def _unrefined(cut: _Cut, model: Model, parallel: Parallel, rules: Rules) -> NotSplit:
    by_rows = cut.share % cut.rows
    side = (
        f"output_size of gate's and up's weight = {cut.share}"
        if by_rows
        else f"input_size of down's weight = {cut.share}"
    )
    name, block = ("block_n", cut.rows) if by_rows else ("block_k", cut.columns)
    newer = "--engine vllm@0.29.0, " if cut.refines else ""
    whole = "" if cut.weight.shape[1] % cut.rows else f"--ep {parallel.tp * parallel.dp} to keep experts whole, or "
    return NotSplit(
        f"vLLM {text(rules.version)} can't split the experts of {model.origin.id} by --tp {parallel.tp}",
        cause=f"The {side} is not divisible by weight quantization {name} = {block}.",
        hint=f"{cut.sizes}{newer}{whole}a checkpoint without blocks",
    )


def _sizes(inputs: int, block: int) -> str:
    """The tensor sizes that cut a row between blocks, for a hint."""
    working = [str(size) for size in (2, 4, 8, 16, 32) if not inputs % (size * block)]
    return f"--tp {any_of(working)}, " if working else ""
