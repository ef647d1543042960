"""What Qwen4-Exp's indexers keep, by hand. Source: vLLM 0.33 models/qwen4_exp/common/qsa_cache.py."""

from __future__ import annotations

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Origin
from kvplan.errors import BadField, MissingField
from kvplan.families import read

INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
}
TEXT = {"model_type": "qwen4_exp_text", "num_hidden_layers": 8}  # its class: 2 of 8 layers attend, 2 heads of 256


def kept(tokens, **fields):
    return read({**TEXT, **fields}, Origin("test", "test")).curve(parse_kv_format("bf16")).bytes_at(tokens)


def test_a_key_for_each_group_and_the_raw_keys_of_one():
    """1,000 tokens are 62 groups of 16; a key has 256 elements of 2 B."""
    assert kept(1000, **INDEXER) - kept(1000) == 2 * (62 + 16) * 512


def test_what_an_indexer_needs_is_asked_for():
    for name in INDEXER.keys() - {"indexer_n_heads"}:
        with pytest.raises(MissingField, match=name):
            kept(1, **{**INDEXER, name: None})
    with pytest.raises(BadField, match="indexer_kv_heads"):
        kept(1, **{**INDEXER, "indexer_kv_heads": 2})
