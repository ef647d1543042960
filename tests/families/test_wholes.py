"""Where the class of a whole looks for its language model, and what it builds of what a config leaves out.

Each answer is that of transformers 5.23's configuration classes: type(**config).get_text_config().
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.layers import Attention
from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField, MissingField
from kvplan.families import read

TEXT = {
    "num_hidden_layers": 4, "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 64, "vocab_size": 100, "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
}  # fmt: skip


def model(config: dict[str, Any], **fields: object) -> Model:
    return read({**config, **fields}, Origin("a test", "a test"))


@pytest.mark.parametrize(
    "model_type",
    ["qwen3_5", "qwen3_5_moe", "qwen3_vl", "llama4", "gemma3", "gemma4", "idefics3", "mllama", "llava", "step3p7"],
)
def test_fields_at_the_top_that_the_class_ignores(model_type):
    with pytest.raises(MissingField) as caught:
        model(TEXT, model_type=model_type)
    assert caught.value.field == "text_config"
    assert "num_hidden_layers" in (caught.value.problem.cause or "")
    assert '"text_config": {' in (caught.value.problem.hint or "")


def test_the_object_that_the_class_looks_into_is_named():
    with pytest.raises(MissingField) as caught:
        model(TEXT, model_type="qwen2_5_omni")
    assert caught.value.field == "thinker_config"


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "fuyu", "hunyuan_vl", "paddleocr_vl"])
def test_fields_at_the_top_that_reach_the_language_model(model_type):
    assert len(model(TEXT, model_type=model_type).layers) == 4


def test_both_are_the_nested_one_s():
    assert len(model({**TEXT, "num_hidden_layers": 7}, model_type="qwen3_vl", text_config=TEXT).layers) == 4


def test_what_a_nested_object_leaves_out_is_its_class_s_whatever_stands_at_the_top():
    """models/llama: 32 layers."""
    found = model(
        {**TEXT, "num_hidden_layers": 7}, model_type="llava", text_config={"model_type": "llama", "vocab_size": 100}
    )
    assert len(found.layers) == 32
    assert any("num_hidden_layers at the top is ignored" in note for note in found.notes)


def test_a_nested_object_that_calls_itself_the_whole():
    """create_subconfig: a class of its own is built whatever model_type says."""
    assert len(model({}, model_type="qwen3_vl", text_config={**TEXT, "model_type": "qwen3_vl"}).layers) == 4


def test_a_model_of_code_that_transformers_doesn_t_have():
    """LLaVA's first code, whose own configuration class is a Llama's: everything at the top, model type llava."""
    assert len(model(TEXT, model_type="llava", architectures=["LlavaLlamaForCausalLM"]).layers) == 4
    with pytest.raises(MissingField, match="text_config"):
        model(TEXT, model_type="llava", architectures=["LlavaForConditionalGeneration"])


def test_a_language_model_that_is_left_out_is_the_class_s():
    """models/glmasr: text_config's init_kwargs say 28 layers, 4 of 16 heads, 2048 wide."""
    found = model({}, model_type="glmasr", torch_dtype="bfloat16")
    assert [layer.caches for layer in found.layers] == [(Attention(16, 4, 128, 128),)] * 28
    assert {"text_config.num_hidden_layers", "text_config.num_attention_heads"} <= {
        each.field for each in found.defaulted
    }


def test_heads_that_are_left_out_are_the_class_s():
    """models/nanochat: 6 heads."""
    found = model(
        {
            "model_type": "nanochat",
            "hidden_size": 768,
            "num_hidden_layers": 20,
            "vocab_size": 32,
            "intermediate_size": 128,
        }
    )
    assert found.layers[0].caches == (Attention(6, 6, 128, 128),)
    assert ("num_attention_heads", 6) in [(each.field, each.value) for each in found.defaulted]


@pytest.mark.parametrize("architecture", ["DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"])
def test_a_latent_without_its_rank(architecture):
    """vLLM 0.33 reads kimi_k2 with DeepseekV3Config, whose kv_lora_rank is 512: never one head per query head."""
    with pytest.raises(MissingField) as caught:
        model(TEXT, model_type="kimi_k2", architectures=[architecture])
    assert caught.value.field == "kv_lora_rank"


def test_halves_of_a_key_without_a_rank():
    with pytest.raises(MissingField, match="kv_lora_rank"):
        model(TEXT, model_type="unheard_of", qk_rope_head_dim=64, qk_nope_head_dim=128)


@pytest.mark.parametrize("field", ["sliding_window", "num_hidden_layers", "max_position_embeddings"])
def test_a_decimal_point(field):
    """transformers 5.23: StrictDataclassFieldValidationError, "expected int, got float"."""
    with pytest.raises(BadField, match=field) as caught:
        model({**TEXT, "sliding_window": 16}, model_type="mistral", **{field: 16.0})
    assert caught.value.problem.hint == "write 16"
    assert len(model(TEXT, model_type="unheard_of", num_hidden_layers=4.0).layers) == 4


@pytest.mark.parametrize("model_type", ["glm4v", "glm4v_moe", "glm_ocr", "ernie4_5_vl_moe"])
def test_fields_at_the_top_that_an_older_release_reads(model_type):
    """transformers 5.19, which vLLM 0.33 runs on: text_config(**kwargs) where it is left out. 5.23: the class's own."""
    found = model({**TEXT, "num_hidden_layers": 6}, model_type=model_type)
    assert [layer.caches for layer in found.layers] == [(Attention(8, 2, 64, 64),)] * 6
    assert any('move them into "text_config"' in note and "5.19" in note for note in found.notes)
    nested = model({}, model_type=model_type, text_config=TEXT)
    assert len(nested.layers) == 4
    assert not any("5.19" in note for note in nested.notes)
    assert len(model({**TEXT, "num_hidden_layers": 6}, model_type=model_type, text_config=TEXT).layers) == 4


def test_nothing_at_the_top_is_the_class_s():
    """models/glm4v: 40 layers, in either release."""
    found = model({}, model_type="glm4v", torch_dtype="bfloat16")
    assert len(found.layers) == 40
    assert not any("5.19" in note for note in found.notes)
