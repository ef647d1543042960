"""Per-layer lists that a class builds where a config is silent, and the fields by which it builds them.

The layers are worked out from the rules in transformers 5.23's configuration classes, named at each test.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.layers import Attention, Recurrent
from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.families import read
from kvplan.families.defaults import class_defaults
from kvplan.sources.bundled import bundled_document

SMALL = {
    "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 100,
    "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
}  # fmt: skip
ZAMBA = {
    "model_type": "zamba2", "hidden_size": 2560, "num_attention_heads": 32, "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_ngroups": 1, "n_mamba_heads": 8, "vocab_size": 32000, "torch_dtype": "bfloat16", "intermediate_size": 10240,
}  # fmt: skip
PERIOD = {"modernbert-decoder": "global_attn_every_n_layers"}
NEMOTRON = "nemotron-3-nano-30b-a3b"


def model(config: dict[str, Any], **fields: object) -> Model:
    return read({**config, **fields}, Origin("a test", "a test"))


def full(found: Model) -> list[int]:
    """The layers that keep every token."""
    return [
        index
        for index, layer in enumerate(found.layers)
        if any(isinstance(cache, Attention) and cache.cap is None for cache in layer.caches)
    ]


@pytest.mark.parametrize("model_type", ["muse_glimmer_text", "muse_spark_text"])
@pytest.mark.parametrize(
    ("count", "layers"),
    [(5, [0, 4]), (52, list(range(3, 52, 4))), (54, list(range(1, 54, 4))), (62, list(range(1, 62, 4)))],
)
def test_a_cycle_counted_from_the_last_layer(model_type, count, layers):
    """models/muse_glimmer: full where (num_hidden_layers - 1 - i) % 4 == 0."""
    found = model(SMALL, model_type=model_type, num_hidden_layers=count, sliding_window=2048)
    assert full(found) == layers
    assert ("layer_types", ["full_attention", "sliding_attention"]) in [
        (each.field, each.value) for each in found.defaulted
    ]


def test_a_list_for_the_class_s_own_layers_alone():
    """models/zamba2: one state, seven times five and a hybrid, four and a hybrid, three and a hybrid, two: of 54 layers."""
    assert full(model(ZAMBA, num_hidden_layers=54)) == [6, 12, 18, 24, 30, 36, 42, 47, 51]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**ZAMBA, "num_hidden_layers": 40}, "layers_block_type"),
        ({**SMALL, "model_type": "dots1", "num_hidden_layers": 70, "sliding_window": 4096}, "layer_types"),
        ({**SMALL, "model_type": "nemotron_h", "num_hidden_layers": 52}, "layers_block_type"),
    ],
)
def test_a_list_that_isn_t_known_for_so_many_layers(config, field):
    with pytest.raises(MissingField) as caught:
        model(config)
    assert caught.value.field == field
    assert f"hasn't {config['num_hidden_layers']} layers" in (caught.value.problem.cause or "")


def test_a_list_of_one_word_holds_for_fewer_layers():
    """models/dots1: sliding from max_window_layers, 62, on."""
    config = {**SMALL, "model_type": "dots1", "num_hidden_layers": 6, "sliding_window": 4096}
    assert full(model(config)) == list(range(6))


@pytest.mark.parametrize(
    ("model_type", "layers"),
    [
        ("gemma4_text", [3]), ("gemma4_unified_text", [3]),  # every sixth whatever it says, and the last
        ("gemma3_text", [1, 3]), ("cohere2", [1, 3]), ("exaone4", [1, 3]),  # as it says
        ("modernbert-decoder", [0, 2]),  # i % n, where the others count (i + 1) % n
        ("olmo3", [3]), ("gemma2", [1, 3]), ("gpt_oss", [1, 3]),  # every fourth, every second
    ],
)  # fmt: skip
def test_a_period_counts_for_classes_that_read_it(model_type, layers):
    found = model(
        SMALL,
        model_type=model_type,
        num_hidden_layers=4,
        sliding_window=32,
        **{PERIOD.get(model_type, "sliding_window_pattern"): 2},
    )
    assert full(found) == layers
    assert any("sliding_window_pattern = 2 is ignored" in note for note in found.notes) == (layers == [3])


def test_a_period_counts_for_types_that_no_class_knows():
    assert full(
        model(SMALL, model_type="unheard_of", num_hidden_layers=4, sliding_window=32, sliding_window_pattern=2)
    ) == [1, 3]


@pytest.mark.parametrize(
    "stated", [{"note": 1}, {"linear_num_value_heads": 32}, {"kda_layers": [1], "full_attn_layers": [2]}]
)
def test_another_class_s_object_is_ignored(stated):
    """Qwen3 and Qwen3-Next have no linear_attn_config."""
    qwen = {**SMALL, "model_type": "qwen3", "num_hidden_layers": 2}
    assert model(qwen, linear_attn_config=stated).layers == model(qwen).layers
    config = bundled_document("qwen3-next-80b-a3b").config
    assert model(config, linear_attn_config=stated).layers == model(config).layers


def test_kimi_s_object_is_read_where_its_lists_are():
    fields = {
        "num_heads": 8,
        "head_dim": 64,
        "short_conv_kernel_size": 4,
        "kda_layers": [1, 2],
        "full_attn_layers": [3],
    }
    found = model(SMALL, model_type="unheard_of", num_hidden_layers=3, linear_attn_config=fields)
    assert [isinstance(layer.caches[0], Recurrent) for layer in found.layers] == [True, True, False]
    with pytest.raises(Unsupported, match="linear_attn_config"):
        model(SMALL, model_type="unheard_of", num_hidden_layers=3, linear_attn_config={"num_heads": 8})


def test_letters_as_a_list():
    """models/nemotron_h, _pattern_to_list: [pattern_mapping[char] for char in pattern]."""
    config = bundled_document(NEMOTRON).config
    letters = list(config["hybrid_override_pattern"])
    assert model(config, hybrid_override_pattern=letters).layers == model(config).layers
    assert model({**config, "num_hidden_layers": None}, hybrid_override_pattern=letters).layers == model(config).layers
    with pytest.raises(Unsupported, match="'MM'"):
        model(config, hybrid_override_pattern=["MM", *letters[1:]])


def test_every_word_of_a_law():
    assert class_defaults("muse_glimmer_text").builds("layer_types") == {"full_attention", "sliding_attention"}
    assert class_defaults("zamba2").builds("layers_block_type") == {"linear_attention", "hybrid"}
    assert class_defaults("llama").builds("layer_types") == frozenset()


def test_lfm2_attends_in_every_layer_where_no_list_says_otherwise() -> None:
    """models/lfm2: full_attn_idxs is range(num_hidden_layers) when it is null."""
    found = model(SMALL, model_type="lfm2", num_hidden_layers=16)
    assert full(found) == list(range(16))


@pytest.mark.parametrize("model_type", ["gemma4_text", "gemma4_unified_text", "diffusion_gemma_text"])
def test_a_last_layer_that_the_class_makes_full(model_type):
    """models/gemma4/configuration_gemma4.py: "Last layer must use `full_attention`": over a list that is stated too."""
    listed = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]
    found = model(SMALL, model_type=model_type, num_hidden_layers=4, sliding_window=512, layer_types=listed)
    assert full(found) == [1, 3]
    assert any("ends in sliding_attention" in note for note in found.notes)
    assert found.windows is not None
    assert found.windows.kinds == ("sliding_attention", "full_attention")


@pytest.mark.parametrize("said", [{}, {"attention_k_eq_v": False}])
@pytest.mark.parametrize(("model_type", "kv_heads"), [("diffusion_gemma_text", 2), ("gemma4_text", 8)])
def test_values_are_keys_where_the_class_has_no_switch_for_it(model_type, kv_heads, said):
    """models/diffusion_gemma drops attention_k_eq_v: "models that drop the attribute entirely are ungated"; vLLM 0.33 sets it."""
    heads = {"num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512}
    layers = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 512}
    found = model(SMALL, model_type=model_type, num_attention_heads=16, **heads, **layers, **said)
    sizes = [(cache.kv_heads, cache.k_dim) for layer in found.layers for cache in layer.caches]
    assert sizes == [(8, 256), (kv_heads, 512)]


def test_a_list_that_is_kept_as_it_is():
    """models/gemma3 writes over none of a stated list."""
    listed = ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]
    found = model(SMALL, model_type="gemma3_text", num_hidden_layers=4, sliding_window=512, layer_types=listed)
    assert full(found) == [0]


def test_hybrids_that_are_listed_otherwise():
    """models/zamba2: a stated hybrid_layer_ids stays, and vLLM 0.33 gives those layers attention that their list doesn't have."""
    listed = ["mamba"] * 6 + ["hybrid"] + ["mamba"] * 5
    assert full(model(ZAMBA, num_hidden_layers=12, layers_block_type=listed, hybrid_layer_ids=[6])) == [6]
    with pytest.raises(BadField, match="hybrid_layer_ids"):
        model(ZAMBA, num_hidden_layers=12, layers_block_type=listed, hybrid_layer_ids=[5, 11])


def test_latents_of_a_window_with_sizes_of_their_own_are_refused():
    """vLLM 0.33 models/dots3_note/nvidia/model.py reads swa_kv_lora_rank and its like for layers with a window."""
    config = {
        **SMALL, "model_type": "dots3_note", "num_hidden_layers": 4, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "q_lora_rank": 256, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 2,
    }  # fmt: skip
    same = read({**config, "swa_kv_lora_rank": 512}, Origin("test", "test"))
    assert [layer.caches[0].window for layer in same.layers] == [128, None] * 2
    with pytest.raises(BadField) as caught:
        read({**config, "swa_kv_lora_rank": 1024}, Origin("test", "test"))
    assert caught.value.field == "swa_kv_lora_rank"
