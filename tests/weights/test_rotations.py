"""Tables of rotary positions: as many rows as positions, whatever name the scaling goes by."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin, Rope
from kvplan.arch.traits import TWO_ROPE_TYPES
from kvplan.errors import BadField
from kvplan.families import read
from kvplan.families.spellings import ORIGINAL
from kvplan.sources.bundled import bundled_document

QWEN2 = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 256,
    "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000,
    "max_position_embeddings": 32768,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
DEFAULT = {"rope_type": "default", "rope_theta": 1e6}


def model(**fields: Any) -> Model:
    return read({**QWEN2, **fields}, Origin("test", "test"))


def rows(found: Model) -> list[int]:
    assert found.weights is not None
    return [table.shape[0] for table in found.weights.tables]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (YARN, None, 131_072),  # 4 x 32,768
        (None, YARN, 131_072),
        (YARN, DEFAULT, 131_072),
        (DEFAULT, YARN, 32_768),
        ({}, YARN, 131_072),
        (None, {"full_attention": YARN, "sliding_attention": DEFAULT}, 131_072),
        (None, {"full_attention": YARN, "rope_type": "default"}, 131_072),
        (None, None, 32_768),
    ],
)
def test_the_old_name_of_a_scaling_wins(old: object, new: object, expected: int):
    """Source: transformers 5.23 modeling_rope_utils.py, `rope_scaling or self.rope_parameters`; vLLM 0.12 to 0.25 alike."""
    found = model(rope_scaling=old, rope_parameters=new)
    assert rows(found) == [expected]
    assert any(rope.kind == "yarn" for rope in found.context.ropes) == (expected > 32_768)


def test_a_language_model_is_not_told_of_the_scaling_beside_it():
    """vLLM 0.33 plans lengths and tables by the language model's own config, but looks at the types in all of them."""
    text = {**QWEN2, "model_type": "qwen2_5_vl_text"}
    whole = {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "text_config": text}
    found = read({**whole, "rope_scaling": YARN}, Origin("test", "test"))
    assert rows(found) == [32_768]
    assert found.context.ropes == ()
    twice = read({**whole, "rope_scaling": {**YARN, "type": "linear"}}, Origin("test", "test"))
    assert TWO_ROPE_TYPES in twice.traits


def test_scalings_of_types_of_layers_are_each_kept():
    found = model(rope_parameters={"full_attention": YARN, "sliding_attention": DEFAULT})
    assert [rope.kind for rope in found.context.ropes] == ["yarn", "default"]
    assert found.context.ropes[0] == Rope("yarn", 4.0, 32_768, tuple(sorted(YARN)))


LARGE4 = {
    "model_type": "mistral_large4_text", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 2,
    "num_key_value_heads": 2, "intermediate_size": 128, "moe_intermediate_size": 32, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "qk_head_dim": 16, "v_head_dim": 16,
    "index_head_dim": 8, "index_n_heads": 2, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, [24, 24, 24, 16]),  # a latent of 16 and a rotary key of 8; every 4th layer has the latent alone
        ({"no_rope_layer_interval": 2}, [24, 16, 24, 16]),
        ({"no_rope_layers": [0, 1, 1, 0]}, [16, 24, 24, 16]),
    ],
)
def test_weights_and_cache_rotate_the_same_layers(stated: dict[str, Any], expected: list[int]):
    """Source: transformers 5.23 models/mistral_large4/configuration_mistral_large4.py, whose interval is 4 where none is stated."""
    found = read({**LARGE4, **stated}, Origin("test", "test"))
    assert found.weights is not None
    joined = [weight.shape[0] for layer in found.weights.layers for weight in layer if "kv_a_proj" in weight.name]
    assert joined == expected
    assert [16 + layer.caches[0].rope_dim for layer in found.layers] == expected


def test_switches_for_too_few_layers_are_refused():
    with pytest.raises(BadField, match=r"no_rope_layers is .*, not 4 switches, one a layer"):
        read({**LARGE4, "no_rope_layers": [0, 1, 1]}, Origin("test", "test"))
    longer = read({**LARGE4, "no_rope_layers": [0, 1, 1, 0, 1]}, Origin("test", "test"))
    assert [layer.caches[0].rope_dim for layer in longer.layers] == [0, 8, 8, 0]


@pytest.mark.parametrize(
    ("model_type", "stated", "expected"),
    [
        ("qwen2", {"max_seq_len": 512}, 32_768),  # the class doesn't read it: its own default
        ("qwen2", {"max_seq_len": 512, "max_position_embeddings": 1024}, 1024),
        ("codegen", {"n_positions": 512, "n_ctx": 256}, 512),
        ("unheard_of", {"max_seq_length": 512}, 512),  # its class may read anything
        ("unheard_of", {"max_position_embeddings": 512, "model_max_length": 1024}, 512),
    ],
)
def test_rows_by_the_names_that_a_class_reads(model_type: str, stated: dict[str, int], expected: int):
    """Source: vLLM 0.33 models, getattr(config, "max_position_embeddings", 8192) of the class that transformers 5.23 builds."""
    silent = {name: value for name, value in QWEN2.items() if name != "max_position_embeddings"}
    config = {**silent, "model_type": model_type, **stated}
    assert rows(read(config, Origin("test", "test"))) == [expected]


@pytest.mark.parametrize("model_type", ["cohere", "cohere2", "cohere2_moe"])
def test_command_r_s_own_word_on_its_length_is_the_tables(model_type: str):
    """Source: vLLM 0.33 models/commandr.py and cohere2_moe.py, model_max_length or max_position_embeddings."""
    found = read({**QWEN2, "model_type": model_type, "model_max_length": 65_536}, Origin("test", "test"))
    assert set(rows(found)) == {65_536}


@pytest.mark.parametrize(
    ("name", "beside", "inside", "expected"),
    [
        ("qwen3-8b", None, None, 163_840), ("qwen3-8b", 16_384, None, 65_536), ("qwen3-8b", None, 8_192, 32_768),
        ("qwen3-8b", 16_384, 8_192, 65_536), ("llama-3.1-8b", None, None, 524_288), ("llama-3.1-8b", 16_384, None, 65_536),
    ],
)  # fmt: skip
def test_a_table_that_yarn_stretches(name, beside, inside, expected):
    """Rows of vLLM 0.33's own tables, by its weights: factor 4 x the length beside the scaling, else in it, else the stated one."""
    scaling = {"rope_type": "yarn", "factor": 4.0, **({ORIGINAL: inside} if inside else {})}
    config = {**bundled_document(name).config, "rope_scaling": scaling, **({ORIGINAL: beside} if beside else {})}
    assert rows(read(config, Origin("test", "test"))) == [expected]
