"""Drafts wrapped by the tools that train them: what vLLM 0.33 makes of each, by its transformers_utils/configs."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.layers import Attention
from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.sources.document import Document
from kvplan.sources.models import model_of

LAYER: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
EAGLE3 = {
    "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 32000, "target_hidden_size": None,
    "speculators_config": {"algorithm": "eagle3"}, "transformer_layer_config": LAYER,
}  # fmt: skip
DFLASH = {
    "architectures": ["DFlashSpeculator"], "speculators_model_type": "dflash", "mask_token_id": 151669,
    "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34], "block_size": 16,
    "transformer_layer_config": {**LAYER, "model_type": "qwen3", "num_hidden_layers": 5},
}  # fmt: skip
EAGLE = {"model_type": "eagle", "model": {**LAYER, "architectures": ["LlamaForCausalLM"]}}


def model(config: dict[str, Any]) -> Model:
    return model_of(Document(config, Origin("a draft", "a test")))


def test_a_speculator_s_eagle3_is_the_plain_one():
    plain = model({**LAYER, "architectures": ["Eagle3LlamaForCausalLM"], "draft_vocab_size": 32000})
    found = model(EAGLE3)
    assert found.layers == plain.layers
    assert [layer.caches for layer in found.layers] == [(Attention(32, 8, 128, 128),)]
    assert found.weights == plain.weights
    assert found.architectures == ("Eagle3LlamaForCausalLM",)


def test_a_speculator_s_dflash_reads_the_layers_listed():
    """algos.py update_dflash: target_layer_ids, one less than each that is listed."""
    plain = {**DFLASH["transformer_layer_config"], "architectures": ["DFlashDraftModel"], "block_size": 16}
    expected = model({**plain, "dflash_config": {"target_layer_ids": [1, 9, 17, 25, 33]}})
    assert model(DFLASH).weights == expected.weights
    assert len(model(DFLASH).layers) == 5


def test_a_wrapped_eagle_is_the_plain_one():
    """vLLM 0.33 plans 19,859 blocks with either."""
    plain = model(EAGLE["model"])
    assert (model(EAGLE).layers, model(EAGLE).weights) == (plain.layers, plain.weights)
    assert model({**EAGLE, "max_position_embeddings": 2048}).context.tokens == 2048


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        ({"speculators_model_type": "eagle"}, Unsupported, "speculators_model_type 'eagle'"),
        ({"transformer_layer_config": {**LAYER, "model_type": "gemma3"}}, Unsupported, "'gemma3'"),
        ({"transformer_layer_config": None}, MissingField, "transformer_layer_config"),
        ({"transformer_layer_config": [1]}, BadField, "transformer_layer_config"),
    ],
)
def test_what_vllm_doesn_t_take(change, error, field):
    with pytest.raises(error, match=field):
        model({**EAGLE3, **change})


def test_a_config_that_states_its_type_is_no_params_json():
    """DistilBERT spells its sizes as Mistral's params.json does."""
    sizes = {"dim": 768, "hidden_dim": 3072, "n_heads": 12, "n_layers": 6, "vocab_size": 30522}
    with pytest.raises(Unsupported, match=r"^distilbert is an encoder"):
        model({**sizes, "model_type": "distilbert", "qa_dropout": 0.1})
    assert len(model({**sizes, "n_kv_heads": 12, "model_type": "transformer"}).layers) == 6


def test_sizes_of_an_image_s_resampler_are_no_cache_s():
    """ERNIE-4.5-VL's own configuration: they size the layers between the tower and the language model."""
    experts = {
        "moe_num_experts": [64, 64],
        "moe_intermediate_size": [1536, 512],
        "moe_k": 6,
        "moe_num_shared_experts": 2,
    }
    images = {"spatial_conv_size": 2, "temporal_conv_size": 2, "pixel_hidden_size": 1280}
    assert model({**LAYER, "model_type": "ernie4_5_moe_vl", **experts, **images}).layers == model(LAYER).layers
