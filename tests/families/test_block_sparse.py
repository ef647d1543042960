"""Which layers of MiniMax-M3 have indexers: asked of vLLM 0.33's planner and of transformers 5.23, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Origin
from kvplan.errors import MissingField
from kvplan.families import read

BF16 = parse_kv_format("bf16")
TEXT: dict[str, Any] = {
    "model_type": "minimax_m3_vl_text", "hidden_size": 6144, "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 4,
    "head_dim": 128, "vocab_size": 200064,
}  # fmt: skip
SIZES = {
    "sparse_index_dim": 128,
    "sparse_num_index_heads": 4,
    "sparse_topk_blocks": 16,
    "sparse_block_size": 128,
}
LISTED = ["full_attention", "full_attention", "minimax_m3_sparse", "minimax_m3_sparse"]
HEADS, KEY = 4 * (2 * 4 * 128) * 2, 128 * 2
"""Bytes that a token's keys and values take in all layers, and its key in one indexer."""


@pytest.mark.parametrize(
    ("said", "indexers"),
    [
        ({"sparse_attention_config": {**SIZES, "sparse_attention_freq": [0, 0, 1, 1]}}, 2),
        ({"sparse_attention_config": {**SIZES, "sparse_attention_freq": [0, 1]}}, 1),
        ({"sparse_attention_config": SIZES}, 0),
        ({"sparse_attention_config": {**SIZES, "sparse_attention_freq": None}}, 0),
        ({"sparse_attention_config": {**SIZES, "sparse_attention_freq": [1] * 4, "use_sparse_attention": False}}, 4),
        ({"sparse_attention_config": {**SIZES, "sparse_attention_freq": [0, 1, 1, 1]}, "layer_types": LISTED}, 3),
        ({"layer_types": LISTED}, 2),  # as transformers saves it, whose class knows the sizes
    ],
)
def test_layers_with_indexers(said, indexers):
    curve = read({**TEXT, **said}, Origin("test", "test")).curve(BF16)
    assert curve.bytes_at(1) == HEADS + indexers * KEY


def test_a_config_that_says_nothing_of_them_is_refused():
    """transformers takes none, and vLLM's own class 57 of 60."""
    with pytest.raises(MissingField, match="sparse_attention_config"):
        read(TEXT, Origin("test", "test"))
