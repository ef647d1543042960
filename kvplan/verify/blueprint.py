"""What to build: the torch modules that one tensor rank needs for each layer of a model. Pure.

Shapes come from a layer's cache (heads, dimensions, windows), from the config's hidden size and vocabulary, and from
the names of its weights (which biases, norms and gates there are). Only the weights state the width of a feed-forward.
Weights that no module reads are allocated all the same, so that memory is right, and listed as `held`.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.weights import Weight
from kvplan.errors import Unsupported
from kvplan.verify.mixers import mixer
from kvplan.verify.names import Names
from kvplan.verify.parts import Blueprint, DensePart, ExpertsPart, LayerPlan


def blueprint(model: Model, tp: int) -> Blueprint:
    """The decoder of one of `tp` ranks.

    Raises: Unsupported for a layer that no module computes; CannotSplit.
    """
    if model.hidden_size is None:
        raise Unsupported(f"{model.origin.id} doesn't say its hidden size", hint="verify needs it to build projections")
    layers = tuple(_layer(model, index, tp) for index in range(len(model.layers)))
    if model.weights is None:
        return Blueprint(model.hidden_size, 0, tied=False, dtype=model.dtype, layers=layers, final_norm=False)
    before, after = Names(model.weights.first), Names(model.weights.last)
    embedding, head = before.take("embedding", "embed_tokens"), after.take("head", "lm_head")
    more = _MORE_ROWS.get(model.family, 0)
    return Blueprint(
        model.hidden_size, _rows(model, embedding, tp, more), tied=model.weights.tied, dtype=model.dtype, layers=layers,
        head=_rows(model, head, tp), final_norm=after.take_norm(model.hidden_size), idle=after.idle_norms(),
        held=(*before.held(tp), *after.held(tp)),
    )  # fmt: skip


_MORE_ROWS = {"mllama_text_model": 8}
"""Rows of an embedding beyond the vocabulary. Source: transformers 5.23 models/mllama, vocab_size + 8."""


def _rows(model: Model, table: Weight | None, tp: int, more: int = 0) -> int:
    """Rows of a table on one rank: those of the config's vocabulary, whatever the inventory lists."""
    if table is None:
        return 0
    return -(-(table.shape[0] if model.vocab_size is None else model.vocab_size + more) // tp)


def _layer(model: Model, index: int, tp: int) -> LayerPlan:
    layer, hidden = model.layers[index], model.hidden_size or 0
    names = Names(() if model.weights is None else model.weights.layers[index])
    caches = layer.caches if layer.shares_with is None else model.layers[layer.shares_with].caches
    mixers = tuple(mixer(cache, names, tp, layer.shares_with, model.dtype.name) for cache in caches)
    found = (_dense(names, tp), _experts(names, tp, hidden))
    feed_forwards = tuple(part for part in found if part is not None)
    norms = 0
    while norms < bool(mixers) + bool(feed_forwards) and names.take_norm(hidden):
        norms += 1
    idle = names.idle_norms()
    return LayerPlan(mixers, feed_forwards, norms, names.held(tp), idle)


def _dense(names: Names, tp: int) -> DensePart | None:
    up = names.take("mlp", "up_proj")
    if up is None:
        return None
    names.drop("mlp", "down_proj")
    gate = names.drop("mlp", "gate_proj")
    bias = names.drop("mlp", "up_proj.bias", "gate_proj.bias")
    return DensePart(-(-up.shape[0] // tp), gate, bias, names.drop("mlp", "down_proj.bias"))


def _experts(names: Names, tp: int, hidden: int) -> ExpertsPart | None:
    up = names.take("experts", "up_proj")
    if up is None:
        return None
    names.drop("experts", "down_proj")
    names.take("router", "gate", "proj", "router", shape=(up.copies, hidden))
    gate = names.drop("experts", "gate_proj")
    shared = names.take("shared_experts", "up_proj")
    if shared is not None:
        names.drop("shared_experts", "down_proj", "gate_proj")
    latent = None if up.shape[1] == hidden else up.shape[1]
    if latent is not None:
        names.drop("mlp", "fc1_latent_proj", "fc2_latent_proj")
    return ExpertsPart(
        up.copies, up.picked or 1, -(-up.shape[0] // tp), gate, 0 if shared is None else -(-shared.shape[0] // tp),
        names.drop("router", "shared_expert_gate"), latent,
    )  # fmt: skip
