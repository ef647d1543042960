"""Lists, periods and counts that say which layers there are: what vLLM 0.33 builds of each, asked of its planner."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.layers import Attention, Latent, Recurrent
from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField, KvplanError
from kvplan.families import read

SIZES: dict[str, Any] = {
    "num_hidden_layers": 4, "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 64, "vocab_size": 100, "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
}  # fmt: skip
NEMOTRON = {
    "model_type": "nemotron_h", "mamba_num_heads": 8, "mamba_head_dim": 64, "ssm_state_size": 16, "n_groups": 1,
    "hybrid_override_pattern": "M-*-M",
}  # fmt: skip
LONGCAT = {
    "model_type": "longcat_flash", "kv_lora_rank": 64, "q_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
    "v_head_dim": 32, "head_dim": 16, "num_hidden_layers": None, "num_key_value_heads": 8,
}  # fmt: skip


def model(**fields: object) -> Model:
    return read({**SIZES, **fields}, Origin("a test", "a test"))


def kinds(found: Model) -> list[str]:
    return [type(layer.caches[0]).__name__ if layer.caches else "none" for layer in found.layers]


def test_a_class_that_counts_its_list():
    """NemotronHConfig.num_hidden_layers is a property: with 52 letters and 50 stated vLLM builds 28 caches, those of all 52."""
    found = model(**NEMOTRON)
    assert kinds(found) == ["Recurrent", "none", "Attention", "none", "Recurrent"]
    assert any("num_hidden_layers = 4 is ignored" in note for note in found.notes)
    assert not any("ignored" in note for note in model(**NEMOTRON, num_hidden_layers=5).notes)


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "qwen3_5_text", "full_attention_interval": 1, "linear_num_value_heads": 8},
        {"model_type": "jamba", "attn_layer_period": 1, "attn_layer_offset": 0, "mamba_d_state": 16, "num_experts": 1},
        {**NEMOTRON, "hybrid_override_pattern": "*-*-"},
    ],
)
def test_a_recurrent_type_that_says_that_no_layer_is(fields):
    found = model(**fields)
    assert {type(cache) for layer in found.layers for cache in layer.caches} == {Attention}


def test_kimi_without_a_delta_layer():
    linear = {
        "full_attn_layers": [1, 2, 3, 4],
        "kda_layers": [],
        "head_dim": 128,
        "num_heads": 8,
        "short_conv_kernel_size": 4,
    }
    found = model(**{**LONGCAT, "model_type": "kimi_linear", "num_hidden_layers": 4}, linear_attn_config=linear)
    assert [type(layer.caches[0]) for layer in found.layers] == [Latent] * 4


SPARSE = {**LONGCAT, "model_type": "deepseek_v32", "num_hidden_layers": 4, "index_head_dim": 128, "index_topk": 64}


def test_letters_that_say_which_layers_choose_tokens_of_their_own():
    """vLLM 0.33 models/deepseek_v2.py: a layer whose letter is S has no indexer and takes an earlier layer's choice."""
    caches = [layer.caches[0] for layer in model(**SPARSE, index_topk_pattern="FSSF").layers]
    assert [cache.indexer is not None for cache in caches if isinstance(cache, Latent)] == [True, False, False, True]


@pytest.mark.parametrize("pattern", ["FSS", "FSSX"])
def test_letters_that_say_it_of_too_few_layers_or_mean_nothing_are_refused(pattern):
    with pytest.raises(BadField, match="index_topk_pattern"):
        model(**SPARSE, index_topk_pattern=pattern)


def test_a_state_s_shape_alone_says_nothing():
    with pytest.raises(KvplanError, match="no field says which layers keep one"):
        model(model_type="unheard_of", mamba_d_state=16)


@pytest.mark.parametrize(
    ("fields", "blocks"), [({"num_layers": 3}, 3), ({"num_hidden_layers": 6}, 3), ({"num_layers": 3, "num_hidden_layers": 6}, 3)]
)  # fmt: skip
def test_longcat_s_blocks_of_two(fields, blocks):
    """LongcatFlashConfig: num_hidden_layers is 2 x num_layers, and setting it sets the other."""
    assert [len(layer.caches) for layer in model(**{**LONGCAT, **fields}).layers] == [2] * blocks


def test_longcat_s_counts_that_contradict_each_other():
    """vLLM 0.33 builds 14 blocks of 28 and 28."""
    with pytest.raises(BadField, match=r"num_hidden_layers is 28, not 2 x num_layers \(28\)") as refused:
        model(**{**LONGCAT, "num_layers": 28, "num_hidden_layers": 28})
    assert refused.value.problem.hint


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"model_type": "qwen3", "layer_types": ["full_attention"] * 3}, "write 3 as num_hidden_layers"),
        ({"model_type": "gemma3_text", "sliding_window": -1, "layer_types": ["sliding_attention"] * 4}, "write null"),
        (
            {"model_type": "mamba2", "num_heads": 5, "expand": 2, "state_size": 16, "num_attention_heads": None},
            "write 16",
        ),
        ({**NEMOTRON, "hybrid_override_pattern": "M?*-"}, "kvplan YAML"),
        ({"model_type": "gemma4_text", "num_kv_shared_layers": 9}, "--draft"),
    ],
)
def test_what_to_type_next(fields, hint):
    with pytest.raises(KvplanError) as refused:
        model(**fields)
    assert hint in (refused.value.problem.hint or "")


def test_recurrent_layers_are_still_told():
    found = model(model_type="qwen3_5_text", full_attention_interval=2)
    assert kinds(found) == [Recurrent.__name__, Attention.__name__] * 2
