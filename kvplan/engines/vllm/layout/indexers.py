"""Indexers of layers that take an earlier layer's choice: until 0.23 vLLM builds them all the same, and never uses them.

Source: vLLM 0.21 to 0.24 models/deepseek_v2.py: `_skip_topk` decides about the indexer only since 0.24.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.layers import Latent, Layer
from kvplan.arch.model import Model
from kvplan.arch.weights import Block

INDEXER = ".indexer."
"""What the names of its weights have in them."""


def with_unused(model: Model) -> Model:
    """The model with an indexer's weights in each sparse layer of its own that has none: those of one that has."""
    if model.weights is None or len(model.weights.layers) != len(model.layers):
        return model
    blocks = model.weights.layers
    unused = next((found for block in blocks if (found := _indexer(block))), ())
    made = {id(block): block for block in blocks}
    for layer, block in zip(model.layers, blocks, strict=True):
        if _takes_a_choice(layer) and not _indexer(block):
            made[id(block)] = (*block, *unused)
    return replace(model, weights=replace(model.weights, layers=tuple(made[id(block)] for block in blocks)))


def _indexer(block: Block) -> Block:
    return tuple(weight for weight in block if INDEXER in weight.name)


def _takes_a_choice(layer: Layer) -> bool:
    return any(isinstance(cache, Latent) and cache.topk is not None and cache.indexer is None for cache in layer.caches)
