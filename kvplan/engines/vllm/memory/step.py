"""What one step of vLLM's start-up profile holds on the fullest rank, counted from the model's tensors and the flags.

Source: vLLM 0.33 v1/worker/gpu_model_runner.py profile_run; of sparse attention layers/sparse_attn_indexer.py and models/deepseek_v4:
attention.py, nvidia/flashmla.py, nvidia/model.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from kvplan.arch.layers import Compressed, Latent
from kvplan.arch.model import Model
from kvplan.engines.base import Options
from kvplan.engines.vllm.memory.contexts import contexts
from kvplan.engines.vllm.memory.dimensions import Dimensions, dimensions
from kvplan.engines.vllm.memory.encoder import NOTHING, encoded
from kvplan.engines.vllm.memory.made import NONE_MADE, Made, made
from kvplan.engines.vllm.memory.mixers import mixing
from kvplan.engines.vllm.memory.rooms import Rooms, rooms
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


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes, one number a part."""

    words: int
    """Logits of all sequences, in elements."""
    hidden: int
    """Hidden states of all tokens."""
    layer: int
    """What the widest layer has beside them at once."""
    experts: Rooms
    """Rooms that mixtures gather tokens in."""
    towers: int
    """Embeddings of images that stay while text is read."""
    encoder: int
    """Of images, while it runs, before any text."""
    table: int
    """A copy of the embedding that kernels are measured on while they are compiled; a start that finds them compiled has none."""
    keys: int = 0
    """Room that sparse attention gathers keys and entries in; it is the same room that experts use."""
    held: int = 0
    """Of that copy of the embedding, what the allocator keeps and counts as taken beside all that."""
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
    tokens, hidden = settings.tokens, sizes.hidden
    return Step(
        words=min(settings.sequences, tokens) * -(-sizes.vocabulary // ROW_PADDING) * ROW_PADDING,
        hidden=HALF * tokens * hidden,
        layer=max(
            HALF * tokens * (3 * sizes.width + 3 * hidden),
            HALF * tokens * (mixing(model, settings.parallel) + 2 * hidden),
            _attention(sizes, model, settings),
            contexts(model, hidden, settings, rules),
        ),
        experts=rooms(model, sizes, gpu, settings, rules, most=most),
        towers=images.kept,
        encoder=images.running,
        table=0 if sizes.towers else HALF * rows * hidden,
        keys=_keys(model, settings, rules),
        made=made(model, sizes, settings, rules, second=second),
        staged=settings.parallel.pp > 1,
    )


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
