"""What one step of vLLM's start-up profile holds on the fullest rank, counted from the model's tensors and the flags.

Source: vLLM 0.33 v1/worker/gpu_model_runner.py profile_run, layers/fused_moe/modular_kernel.py and experts/*: workspace_shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.model import Model
from kvplan.arch.weights import Weight
from kvplan.engines.vllm.settings import Settings

HALF = 2
"""Bytes of an activation."""
ROW_PADDING = 64
"""Words that logits are padded to."""


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes, one number a part.

    words: logits of all sequences, in elements. hidden: hidden states of all tokens. layer: what the widest layer has
    beside them at once. gathered: what a mixture's layer has, when its rooms don't stay. experts: rooms that mixtures
    gather tokens in. towers: embeddings of images or
    sound, as many as tokens. expert_bits: of an expert's weights, 0 without experts.
    """

    words: int
    hidden: int
    layer: int
    gathered: int
    experts: int
    towers: int
    expert_bits: int


def step(model: Model, settings: Settings) -> Step:
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
        layer=HALF * tokens * (3 * width + 3 * hidden),
        gathered=gathered * (max(2 * expert, hidden) + expert) + HALF * tokens * hidden,
        experts=rooms,
        towers=HALF * tokens * hidden if model.weights is not None and model.weights.towers else 0,
        expert_bits=max((weight.stored.bits for weight in routed), default=0),
    )


def _widens(weight: Weight, hidden: int) -> bool:
    """Whether it goes from the hidden size to the feed-forward's width."""
    return len(weight.shape) == HALF and weight.linear and weight.shape[1] == hidden
