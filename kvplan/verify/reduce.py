"""A model reduced to what a device can hold: fewer layers, fewer rows of vocabulary, never other shapes. Pure."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.layers import Layer
from kvplan.arch.model import Model
from kvplan.arch.weights import DTYPES, TOWERS, Block, Weight, Weights
from kvplan.verify.parts import Blueprint, LayerPlan


def reduced(model: Model, keep: tuple[int, ...], vocab: int | None = None) -> Model:
    """The model with only the layers `keep` (ascending), at most `vocab` rows of vocabulary, and no towers.

    A layer that shares a cache needs the layer that it shares with.
    """
    place = {old: new for new, old in enumerate(keep)}
    layers = tuple(replace(model.layers[old], shares_with=_moved(model.layers[old], place)) for old in keep)
    weights = model.weights
    if weights is not None:
        missing = tuple(one for one in weights.missing if one.partition(" ")[0] not in TOWERS)  # "vision tower (...)"
        layers_kept = tuple(weights.layers[old] for old in keep)
        weights = replace(weights, layers=layers_kept, towers=(), draft=(), missing=missing)
        weights = weights.stored_as(DTYPES[model.dtype.name]) if model.dtype.name in DTYPES else weights
    if vocab is not None and weights is not None and model.vocab_size and vocab < model.vocab_size:
        weights = _fewer_rows(weights, model.vocab_size, vocab)
        model = replace(model, vocab_size=vocab)
    return replace(model, layers=layers, draft_layers=(), weights=weights)


def read_by(weights: Weights, plan: Blueprint, rank: int = 0) -> Weights:
    """The weights that a step of one rank of the built decoder reads, without those that are only held.

    A matrix split by inputs gives parts of one sum, and rank 0 adds its bias once: the other ranks hold the bias and
    don't read it. Source: vLLM 0.33 model_executor/layers/linear.py, RowParallelLinear.forward.
    """

    def others(block: Block, group: LayerPlan | Blueprint) -> Block:
        idle = {*(one.weight for one in group.held), *group.idle, *(_added_once(block) if rank else ())}
        return tuple(weight for weight in block if weight not in idle) if idle else block

    layers = tuple(others(block, layer) for block, layer in zip(weights.layers, plan.layers, strict=True))
    return replace(weights, first=others(weights.first, plan), last=others(weights.last, plan), layers=layers)


def _added_once(block: Block) -> tuple[Weight, ...]:
    """Biases of the matrices of a block that are split by inputs."""
    dealt = {f"{weight.name}.bias" for weight in block if weight.split == 1}
    return tuple(weight for weight in block if weight.name in dealt)


def _moved(layer: Layer, place: dict[int, int]) -> int | None:
    return None if layer.shares_with is None else place[layer.shares_with]


def _fewer_rows(weights: Weights, whole: int, vocab: int) -> Weights:
    """Tables and heads with a row for each of `whole` tokens, cut to `vocab`. Surplus or missing rows stay so."""

    def rows(listed: int) -> int:
        return listed - (whole - vocab) if listed >= whole else listed * vocab // whole

    def fewer(block: Block) -> Block:
        return tuple(
            replace(weight, shape=(rows(weight.shape[0]), *weight.shape[1:]))
            if weight.component in ("embedding", "head") and weight.linear
            else weight
            for weight in block
        )

    return replace(weights, first=fewer(weights.first), last=fewer(weights.last))
