"""Sizes that neither a config nor a description states: how far they may lie apart, and what to call them.

Ends are those of published models. What isn't known is never counted as nothing.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.weights import Block, Weight
from kvplan.engines.base import Range

VOCABULARIES = Range(32_000, 128_256, 262_400)
"""Words: of Llama-2, Llama-3, Gemma-3n."""
HIDDEN = Range(1024, 8192, 16_384)
"""Width of hidden states: of models of 0.5B, 70B and 405B."""
WIDTHS = Range(0, 28_672, 59_392)
"""Width of feed-forward layers: of Mamba, which has none, Llama-3-70B and Falcon-180B."""


def layer_weights(model: Model) -> Block:
    """Weights of distinct layers; none where they aren't known."""
    return tuple(weight for block, _ in model.weights.distinct for weight in block) if model.weights else ()


def shapeless(weight: Weight) -> bool:
    """Whether only its number of elements is known: it stands for matrices whose shapes nobody states."""
    return weight.linear and len(weight.shape) == 1


def unstated(model: Model, *, matrices: bool = True) -> tuple[str, ...]:
    """Fields that would say what a step's tensors take. matrices: whether the widths of layers matter."""
    wide = matrices and model.intermediate_size is None
    absent = {
        "vocab_size": model.vocab_size is None,
        "hidden_size": model.hidden_size is None,
        "intermediate_size": wide and (model.weights is None or any(map(_dense, layer_weights(model)))),
        "parameters": matrices and model.weights is None,
    }
    return tuple(name for name, is_absent in absent.items() if is_absent)


def _dense(weight: Weight) -> bool:
    return shapeless(weight) and weight.component == "mlp"
