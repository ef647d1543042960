"""What one step of vLLM's start-up profile holds on the fullest rank, counted from the model's tensors and the flags.

Source: vLLM 0.33 v1/worker/gpu_model_runner.py profile_run, layers/fused_moe/modular_kernel.py and experts/*: workspace_shapes;
of sparse attention layers/sparse_attn_indexer.py and models/deepseek_v4: attention.py, nvidia/flashmla.py, nvidia/model.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.layers import Compressed, Latent
from kvplan.arch.model import Model
from kvplan.arch.weights import Weight
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.versions import Rules
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
    """Bytes, one number a part.

    words: logits of all sequences, in elements. hidden: hidden states of all tokens. layer: what the widest layer has
    beside them at once. gathered: what a mixture's layer has, when its rooms don't stay. experts: rooms that mixtures
    gather tokens in. towers: embeddings of images or
    sound, as many as tokens. expert_bits: of an expert's weights, 0 without experts. keys: room that sparse attention
    gathers keys and entries in; it is the same room that experts use.
    """

    words: int
    hidden: int
    layer: int
    gathered: int
    experts: int
    towers: int
    expert_bits: int
    keys: int = 0


def step(model: Model, settings: Settings, rules: Rules) -> Step:
    """The profile's step: max_num_batched_tokens tokens of max_num_seqs sequences."""
    hidden = model.hidden_size or 0
    tokens, parallel = settings.tokens, settings.parallel
    found = [weight for block, _ in model.weights.distinct for weight in block] if model.weights else []
    dense = [weight for weight in found if weight.component == "mlp" and _widens(weight, hidden)]
    routed = [weight for weight in found if weight.component == "experts" and _widens(weight, hidden)]
    width = max((weight.on_rank(parallel)[0][0] for weight in dense), default=0)
    picked = max((weight.picked or 0 for weight in routed), default=0)
    expert = max((weight.on_rank(parallel)[0][0] for weight in routed), default=0)
    gathered = HALF * tokens * picked
    rooms = gathered * (max(expert, hidden) + max(2 * expert, hidden)) if picked else 0
    words = -(-(model.vocab_size or 0) // ROW_PADDING) * ROW_PADDING
    return Step(
        words=min(settings.sequences, tokens) * words,
        hidden=HALF * tokens * hidden,
        layer=max(HALF * tokens * (3 * width + 3 * hidden), _attention(model, settings)),
        gathered=gathered * (max(2 * expert, hidden) + expert) + HALF * tokens * hidden,
        experts=rooms,
        towers=HALF * tokens * hidden if model.weights is not None and model.weights.towers else 0,
        expert_bits=max((weight.stored.bits for weight in routed), default=0),
        keys=_keys(model, settings, rules),
    )


def _attention(model: Model, settings: Settings) -> int:
    """The widest layer of sparse attention: scores, streams before and after it, padded outputs beside queries."""
    tokens, hidden = settings.tokens, model.hidden_size or 0
    found = [cache for cache, _ in model.distinct if isinstance(cache, Latent | Compressed)]
    scores = INDEX_SCORES if any(cache.indexer is not None for cache in found) else 0
    heads = max((cache.heads * cache.dim for cache in found if isinstance(cache, Compressed)), default=0)
    if not heads:
        return scores
    own = -(-heads // settings.parallel.tp)
    dim = max(cache.dim for cache in found if isinstance(cache, Compressed))
    padded = -(-own // (dim * KERNEL_HEADS)) * dim * KERNEL_HEADS
    return scores + HALF * tokens * (2 * _streams(model) * hidden + own + padded)


def _streams(model: Model) -> int:
    """Copies of hidden states that hyper-connections keep."""
    blocks = model.weights.distinct if model.weights else ()
    mixers = (weight.shape for block, _ in blocks for weight in block if weight.name.endswith("attn_hc.fn"))
    return next((shape[1] // (model.hidden_size or shape[1]) for shape in mixers), 1)


def _keys(model: Model, settings: Settings, rules: Rules) -> int:
    """Keys of indexers and compressed entries, gathered for prompts that are being read."""
    length, found = settings.length, [cache for cache, _ in model.distinct if isinstance(cache, Latent | Compressed)]
    gathered = GATHERED if length <= LONG else rules.long_gathered
    sizes = [0]
    for cache in found:
        ratio = (cache.ratio or 0) if isinstance(cache, Compressed) else 1
        if cache.indexer is not None and ratio:
            sizes.append(gathered * length // ratio * cache.indexer.stored.row_bytes(cache.indexer.dim))
        if isinstance(cache, Compressed) and ratio:
            sizes.append(PROMPTS * (-(-length // ratio) + cache.window + settings.tokens) * HALF * cache.dim)
    return max(sizes)


def _widens(weight: Weight, hidden: int) -> bool:
    """Whether it goes from the hidden size to the feed-forward's width."""
    return len(weight.shape) == HALF and weight.linear and weight.shape[1] == hidden
