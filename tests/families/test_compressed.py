"""Compressed attention whose config lists one ratio a layer."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.layers import Compressed
from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField
from kvplan.families import read

FLASH: dict[str, Any] = {
    "model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "num_hidden_layers": 43, "num_nextn_predict_layers": 1,
    "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "sliding_window": 128, "vocab_size": 129280,
    "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512, "max_position_embeddings": 1048576, "qk_rope_head_dim": 64,
}  # fmt: skip
RATIOS = [0, 0, *[4, 128] * 20, 4]


def model(**changes: Any) -> Model:
    return read({**FLASH, "compress_ratios": RATIOS, **changes}, Origin("test", "test"))


def test_types_and_their_rates_say_what_a_list_of_ratios_does() -> None:
    """transformers 5.23 models/deepseek_v4: layer_types and compress_rates, in place of the checkpoint's compress_ratios."""
    named = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    types = [named[ratio] for ratio in RATIOS]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    assert model(compress_ratios=None, layer_types=types, compress_rates=rates).layers == model().layers
    assert model(compress_ratios=None, layer_types=types).layers == model().layers  # the rates are the class's own


@pytest.mark.parametrize("surplus", [1, 3])
def test_ratios_of_layers_that_predict_further_tokens_are_surplus(surplus: int) -> None:
    """DeepSeek-V4-Flash-0731 states three, of DSpark's layers, beside num_nextn_predict_layers 1."""
    found = model(compress_ratios=[*RATIOS, *[0] * surplus])
    assert found.layers == model().layers
    caches = [layer.caches[0] for layer in found.layers]
    assert [cache.ratio or 0 for cache in caches if isinstance(cache, Compressed)] == RATIOS


def test_too_few_ratios_are_refused() -> None:
    with pytest.raises(BadField, match="compress_ratios"):
        model(compress_ratios=RATIOS[:-1])
