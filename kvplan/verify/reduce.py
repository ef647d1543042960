"""A model cut down to what a device can hold: fewer layers, fewer rows of vocabulary, never other shapes. Pure."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.layers import Layer
from kvplan.arch.model import Model
from kvplan.arch.weights import DTYPES, Block, Weights
from kvplan.verify.parts import Blueprint, Held


def reduced(model: Model, keep: tuple[int, ...], vocab: int | None = None) -> Model:
    """The same model with only the layers `keep` (ascending) and at most `vocab` rows of vocabulary, without towers.

    A layer that shares a cache needs the layer it shares with among them.
    """
    place = {old: new for new, old in enumerate(keep)}
    layers = tuple(replace(model.layers[old], shares_with=_moved(model.layers[old], place)) for old in keep)
    weights = model.weights
    if weights is not None:
        weights = replace(weights, layers=tuple(weights.layers[old] for old in keep), towers=(), draft=())
        weights = weights.stored_as(DTYPES[model.dtype.name]) if model.dtype.name in DTYPES else weights
        weights = _fewer_rows(weights, vocab)
    return replace(model, layers=layers, draft_layers=(), weights=weights)


def read_by(weights: Weights, plan: Blueprint) -> Weights:
    """What a step of the built decoder can read: the same inventory without what is only held."""

    def others(block: Block, held: tuple[Held, ...]) -> Block:
        idle = {one.weight for one in held}
        return tuple(weight for weight in block if weight not in idle) if idle else block

    layers = tuple(others(block, layer.held) for block, layer in zip(weights.layers, plan.layers, strict=True))
    return replace(weights, first=others(weights.first, plan.held), last=others(weights.last, plan.held), layers=layers)


def _moved(layer: Layer, place: dict[int, int]) -> int | None:
    return None if layer.shares_with is None else place[layer.shares_with]


def _fewer_rows(weights: Weights, vocab: int | None) -> Weights:
    """Tables and heads with a row for each token, cut to `vocab` rows."""

    def fewer(block: Block) -> Block:
        return tuple(
            replace(weight, shape=(min(weight.shape[0], vocab or weight.shape[0]), *weight.shape[1:]))
            if weight.component in ("embedding", "head") and weight.linear
            else weight
            for weight in block
        )

    return replace(weights, first=fewer(weights.first), last=fewer(weights.last))
