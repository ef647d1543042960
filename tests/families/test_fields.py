"""Configs that say it in other words, and configs that can't be answered: each refused by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.layers import Attention, CrossAttention, Recurrent
from kvplan.arch.model import Model, Origin
from kvplan.arch.traits import NOT_IN_16_BIT
from kvplan.errors import BadField, KvplanError, MissingField, Unsupported
from kvplan.families import read
from kvplan.families.quantization.mixes import kept_named

BF16 = parse_kv_format("bf16")
LLAMA = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072}  # fmt: skip


def model(config: dict) -> Model:
    return read(config, Origin("test", "test"))


def per_token(config: dict) -> int:
    curve = model(config).curve(BF16)
    return curve.bytes_at(1) - curve.bytes_at(0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 32 * 8 * 256 * 2),
        ({"head_dim": 80}, 32 * 8 * 160 * 2),  # declared, and not hidden_size / heads
        ({"head_dim": None}, 32 * 8 * 256 * 2),  # null is absent
        ({"num_key_value_heads": None}, 32 * 32 * 256 * 2),  # the class fills in one per query head
        ({"model_type": "mpt", "n_layers": 4, "n_heads": 8, "d_model": 512, "num_hidden_layers": None,
          "num_attention_heads": None, "hidden_size": None, "num_key_value_heads": None}, 4 * 8 * 128 * 2),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, 32 * 576 * 2),
        ({"kv_lora_rank": None, "use_mla": False, "v_head_dim": 0}, 32 * 8 * 256 * 2),
    ],
)  # fmt: skip
def test_bytes_of_the_first_token(change: dict, expected: int) -> None:
    assert per_token({**LLAMA, **change}) == expected


def test_heads_listed_layer_by_layer() -> None:
    # DeciLM-6B: 92 KV heads of 128 in all
    heads = [4] * 8 + [2] * 12 + [1] * 4 + [4] * 8
    config = {**LLAMA, "num_key_value_heads": None, "num_key_value_heads_per_layer": heads}
    assert per_token(config) == 92 * 256 * 2


CONV = {"use_short_conv": True, "conv_size": 4}


@pytest.mark.parametrize(
    ("given", "a_layer"),
    [
        ({}, 3 * 5120 + 5120 * 16),
        ({"layer": "Mamba1", "d_conv": 3, "d_state": 8}, 2 * 5120 + 5120 * 8),
        ({"layer": "Mamba2"}, 3 * (5120 + 2 * 128) + 80 * 64 * 128),
        (
            {"layer": "Mamba2", "expand": 3, "headdim": 128, "d_state": 64, "ngroups": 8},
            3 * (7680 + 8 * 2 * 64) + 60 * 128 * 64,
        ),
    ],
)
def test_configs_of_the_mamba_ssm_package(given: dict[str, Any], a_layer: int) -> None:
    """state-spaces/mamba-2.8b and mamba2-2.7b: inner size 2 x 2560; modules/mamba_simple.py, mamba2.py allocate_inference_cache."""
    found = model({"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": given})
    assert found.curve(BF16).fixed_bytes == 64 * a_layer * 2
    assert found.curve(BF16).bytes_at(10**6) == found.curve(BF16).fixed_bytes


def test_attention_among_the_layers_of_the_mamba_ssm_package_is_refused() -> None:
    with pytest.raises(Unsupported, match="attn_layer_idx"):
        model({"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {}, "attn_layer_idx": [9, 18]})


@pytest.mark.parametrize(
    ("vision", "tokens"),
    [({}, 4 * (32 * 32 + 1)), ({"image_size": 560, "patch_size": 14, "max_num_tiles": 2}, 2 * (40 * 40 + 1))],
)
def test_layers_that_keep_an_image(vision: dict[str, int], tokens: int) -> None:
    """transformers 5.23 models/mllama: tiles of 448 in patches of 14, four of them, where nothing else is stated."""
    text = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 10,
            "cross_attention_layers": [3, 8]}  # fmt: skip
    found = model({"model_type": "mllama", "text_config": text, "vision_config": vision})
    images = {
        number: layer.caches[0]
        for number, layer in enumerate(found.layers)
        if not isinstance(layer.caches[0], Attention)
    }
    assert {number: cache.tokens for number, cache in images.items() if isinstance(cache, CrossAttention)} == {
        3: tokens,
        8: tokens,
    }


def test_states_by_hand() -> None:
    # Mamba-2 with head count left out: 2 x 1024 / 64 = 32 heads; 24 layers of 3 x (2048 + 2 x 8 x 128) bf16 and 32 x 64 x 128
    mamba = {"model_type": "mamba2", "hidden_size": 1024, "expand": 2, "head_dim": 64, "state_size": 128, "n_groups": 8,
             "conv_kernel": 4, "num_hidden_layers": 24}  # fmt: skip
    assert model(mamba).curve(BF16).fixed_bytes == 24 * (3 * 4096 * 2 + 32 * 64 * 128 * 2)
    # gated linear attention: 4 heads of 128 x 256 in fp32
    gla = {
        "model_type": "gla",
        "hidden_size": 1024,
        "num_heads": 4,
        "expand_k": 0.5,
        "expand_v": 1,
        "num_hidden_layers": 24,
    }
    assert model(gla).curve(BF16).fixed_bytes == 24 * 4 * 128 * 256 * 4
    # with short convolutions: 3 rows of its queries, keys and values, 4 x (2 x 128 + 256), in 16 bit
    short = {**gla, **CONV}
    assert model(short).curve(BF16).fixed_bytes == 24 * (4 * 128 * 256 * 4 + 3 * 2048 * 2)
    # with grouped heads: keys and values of 2 heads are convolved, and repeated for 4 before they come to the state
    grouped = {**short, "num_kv_heads": 2, "use_gk": True, "use_gv": False, "feature_map": "relu"}
    assert model(grouped).curve(BF16).fixed_bytes == 24 * (4 * 128 * 256 * 4 + 3 * (4 * 128 + 2 * 384) * 2)
    # gated slot attention: 4 heads of 64 slots, a key of 256 and a value of 256 each, in fp32
    gsa = {"model_type": "gsa", "hidden_size": 1024, "num_heads": 4, "num_slots": 64, "expand_k": 1, "expand_v": 1, "conv_size": 4,
           "feature_map": "swish", "share_conv_kernel": True, "use_short_conv": False, "num_hidden_layers": 24}  # fmt: skip
    assert model(gsa).curve(BF16).fixed_bytes == 24 * 4 * 64 * (256 + 256) * 4
    # delta net: 8 heads of 64 x 128 in fp32, where keys are half as wide as values
    narrow = {"model_type": "delta_net", "hidden_size": 1024, "num_heads": 8, "expand_k": 0.5, "expand_v": 1,
              "num_hidden_layers": 24, **CONV}  # fmt: skip
    assert model(narrow).curve(BF16).fixed_bytes == 24 * (8 * 64 * 128 * 4 + 3 * 8 * (2 * 64 + 128) * 2)
    # HGRN 2: 1024 / 128 heads of 128 x 128 in fp32; its queries, gates and inputs, 3 x 1024
    hgrn2 = {"model_type": "hgrn2", "hidden_size": 1024, "expand_ratio": 128, "num_hidden_layers": 24, **CONV}
    assert model(hgrn2).curve(BF16).fixed_bytes == 24 * (8 * 128 * 128 * 4 + 3 * 3072 * 2)
    # gated delta net: 4 heads of 128 x 256 in fp32, 3 rows of queries, keys and values
    delta = {"model_type": "gated_deltanet", "hidden_size": 1024, "num_heads": 4, "head_dim": 128, "expand_v": 2,
             "num_hidden_layers": 24, **CONV}  # fmt: skip
    assert model(delta).curve(BF16).fixed_bytes == 24 * (4 * 128 * 256 * 4 + 3 * 2048 * 2)
    # Zamba: two states, a hybrid, then a hybrid where i % 6 == 4 of the other 73
    zamba = {"model_type": "zamba", "hidden_size": 64, "num_hidden_layers": 76, "num_attention_heads": 4,
             "attention_head_dim": 32, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}  # fmt: skip
    assert per_token(zamba) == 13 * 4 * 64 * 2


@pytest.mark.parametrize(
    ("field", "used"),
    [("attention_head_dim", 128), ("kv_channels", 128), ("v_head_dim", 128), ("num_kv_heads", 8), ("n_kv_heads", 8)],
)
def test_a_spelling_that_the_class_does_not_read_changes_nothing(field: str, used: int) -> None:
    config = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
              "num_key_value_heads": 8, "vocab_size": 100, "intermediate_size": 64}  # fmt: skip
    odd = model({**config, field: 4})
    assert per_token({**config, field: 4}) == per_token(config) == 2 * 8 * 256 * 2
    assert any(note.startswith(f"{field} = 4 is ignored") and note.endswith(f" is {used}.") for note in odd.notes)
    assert not any("ignored" in note for note in model({**config, field: used}).notes)
    # nobody knows what a type without a class reads
    unknown = {**{key: value for key, value in config.items() if key != "num_key_value_heads"}, "model_type": "own"}
    assert per_token({**unknown, "num_kv_heads": 8, "attention_head_dim": 64}) == 2 * 8 * 128 * 2


def test_a_dense_model_has_mlps() -> None:
    with pytest.raises(BadField, match="intermediate_size is 0"):
        model({**LLAMA, "intermediate_size": 0})
    with pytest.raises(BadField, match="n_inner is 0"):
        model({"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 64, "n_inner": 0, "vocab_size": 9})
    mixtral = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "intermediate_size": 64}
    assert per_token(mixtral) == per_token(LLAMA)


@pytest.mark.parametrize("spelled", ["float32", "fp32", "float", "torch.float32", "torch.fp32", "Float32", "auto"])
def test_a_dtype_is_spelled_alike_wherever_it_stands(spelled: str) -> None:
    """Of the model, of a recurrent state, of a cache and of weights; "auto" is a word for states and command lines."""
    mamba = {"model_type": "mamba2", "hidden_size": 1024, "expand": 2, "head_dim": 64, "state_size": 128, "n_groups": 8,
             "conv_kernel": 4, "num_hidden_layers": 24, "mamba_ssm_dtype": spelled}  # fmt: skip
    # 24 layers of 3 x (2048 + 2 x 8 x 128) in bf16, and 32 x 64 x 128 in 4 bytes, or in the model's 2
    state = 24 * (3 * 4096 * 2 + 32 * 64 * 128 * (2 if spelled == "auto" else 4))
    assert model(mamba).curve(BF16).fixed_bytes == state
    if spelled != "auto":
        assert NOT_IN_16_BIT in model({**LLAMA, "torch_dtype": spelled}).traits
        assert parse_kv_format(spelled).k.name == kept_named(spelled).name == "fp32"


def test_a_stated_float32_is_no_default() -> None:
    found = model({**LLAMA, "torch_dtype": "float32"})
    assert found.dtype.name == "bf16"
    assert "dtype" not in {entry.field for entry in found.defaulted}
    assert any(
        note.startswith("The config's torch_dtype is float32, and bf16 is planned: vLLM") for note in found.notes
    )


def test_a_decoder_beside_an_encoder() -> None:
    decoder = {**LLAMA, "num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 512, "num_key_value_heads": 8}
    both = model({"model_type": "wrapper", "encoder": {"max_position_embeddings": 100}, "decoder": decoder})
    assert both.curve(BF16).fixed_bytes == 2 * 100 * 8 * 128 * 2
    image = {"model_type": "vit", "image_size": 384, "patch_size": 16}
    seen = model({"model_type": "wrapper", "encoder": image, "decoder": decoder})
    assert seen.curve(BF16).fixed_bytes == 2 * 577 * 8 * 128 * 2
    with pytest.raises(MissingField, match="encoder"):
        model({"model_type": "wrapper", "encoder": {"model_type": "swin"}, "decoder": decoder})


def test_class_defaults_are_used_and_written_down() -> None:
    # google/gemma-3-4b-it publishes no heads, head size or pattern: Gemma3TextConfig has 8, 4, 256 and every sixth full
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}
    gemma = model({"model_type": "gemma3", "text_config": text})
    curve = gemma.curve(BF16)
    assert curve.slope_at(0) == 34 * 4 * 512 * 2
    assert curve.slope_at(1024) == 5 * 4 * 512 * 2
    assert {"num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window_pattern"} <= {
        entry.field.removeprefix("text_config.") for entry in gemma.defaulted
    }


@pytest.mark.parametrize("wrapped", [
    {"text_config": LLAMA}, {"llm_config": LLAMA}, {"language_config": LLAMA}, {"thinker_config": {"text_config": LLAMA}},
])  # fmt: skip
def test_nested_configs_are_found(wrapped: dict) -> None:
    assert per_token({"model_type": "wrapper", **wrapped}) == per_token(LLAMA)


@pytest.mark.parametrize(
    ("change", "length"),
    [
        ({}, 131072),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 8192}}, 32768),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 32768),
        ({"max_position_embeddings": None, "model_type": "unheard-of", "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 8192}}, 32768),
        ({"max_position_embeddings": 4096, "max_sequence_length": 16384, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ({"max_position_embeddings": 1048576, "rope_scaling": {"type": "deepseek_yarn", "factor": 32, "original_max_position_embeddings": 32768}}, 1048576),
        ({"rope_scaling": {"rope_type": "linear", "factor": 8}}, 131072),
        ({"max_position_embeddings": None, "max_seq_len": 262144, "model_type": "unheard-of"}, 262144),
        ({"max_position_embeddings": 4096, "model_max_length": 10**30}, 4096),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        ({"max_position_embeddings": None, "model_type": "unheard-of"}, None),
    ],
)  # fmt: skip
def test_the_context_is_the_stated_length_once_scaled_and_says_why(change: dict, length: int | None) -> None:
    context = model({**LLAMA, **change}).context
    assert context.tokens == length
    assert context.reason


def test_a_window_counts_only_where_it_is_switched_on() -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 28}
    assert model({**qwen, "use_sliding_window": False}).curve(BF16).full_after == 0
    switched = model({**qwen, "use_sliding_window": True}).curve(BF16)
    assert switched.slope_at(4096) == 28 * 8 * 256 * 2  # layers from max_window_layers on slide


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"num_hidden_layers": None}, MissingField, "num_hidden_layers"),
        ({"num_attention_heads": 0}, BadField, "num_attention_heads"),
        ({"num_attention_heads": -32}, BadField, "num_attention_heads"),
        ({"num_attention_heads": "32"}, BadField, "num_attention_heads"),
        ({"num_attention_heads": True}, BadField, "num_attention_heads"),
        ({"num_hidden_layers": 1e12}, BadField, "num_hidden_layers"),
        ({"num_hidden_layers": 10**7}, BadField, "num_hidden_layers"),
        ({"num_hidden_layers": float("nan")}, BadField, "num_hidden_layers"),
        ({"head_dim": 12.5}, BadField, "head_dim"),
        ({"hidden_size": 4097}, BadField, "hidden_size"),
        ({"num_key_value_heads": 5}, BadField, "num_key_value_heads"),
        ({"num_key_value_heads": [8] * 31}, BadField, "num_key_value_heads"),
        ({"layer_types": ["full_attention"] * 31}, BadField, "layer_types"),
        ({"layer_types": ["quantum_attention"] * 32}, Unsupported, "quantum_attention"),
        ({"model_type": "newer", "kv_compression_rate": 4}, Unsupported, "kv_compression_rate"),
        ({"model_type": "newer", "mamba_d_state": 16}, Unsupported, "mamba_d_state"),
        ({"model_type": "linear", "num_attention_heads": None, "num_key_value_heads": None, "num_heads": 32}, Unsupported, "num_heads"),
        ({"model_type": "linear", "expand_k": 0.5}, Unsupported, "expand_k"),
        ({"num_key_value_heads_of_each": [8] * 32}, Unsupported, "num_key_value_heads_of_each"),
        ({"model_type": "minimax_text_01"}, MissingField, "attn_type_list"),
        ({"model_type": "mamba2", "num_attention_heads": None, "num_key_value_heads": None, "num_heads": 100, "head_dim": 64,
          "expand": 2, "state_size": 128}, BadField, "num_heads"),
        ({"torch_dtype": "bfloat17"}, Unsupported, "torch_dtype"),
        ({"torch_dtype": 16}, BadField, "torch_dtype"),
        ({"torch_dtype": "auto"}, BadField, "torch_dtype"),
        ({"model_type": "bert"}, Unsupported, "bert"),
        ({"quantization_config": {"kv_cache_scheme": {"num_bits": 3, "type": "int"}}}, Unsupported, "kv_cache_scheme"),
        ({"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP5"}}, Unsupported, "kv_cache_quant_algo 'FP5'"),
        ({"model_type": "zamba2", "num_hidden_layers": 54, "mamba_headdim": 100}, BadField, "a part of mamba_expand x hidden_size = 8192"),
        ({"model_type": "falcon_h1", "mamba_ssm_cache_dtype": "bfloat17"}, Unsupported, "mamba_ssm_dtype 'bfloat17'"),
        ({"model_type": "llama4_text", "no_rope_layers": [1, 0]}, BadField, "no_rope_layers is 'a list of 2'"),
        ({"num_attention_heads_per_layer": [8, 8]}, BadField, "not 32 head counts"),
        ({"model_type": "newer", "layer_types": ["sliding_attention"] * 32}, MissingField, "sliding_window"),
        ({"num_hidden_layers": 4, "kv_source_layers": [0, 0, 1, 3]}, BadField, "kv_source_layers"),
        ({"model_type": "newer", "compress_ratios": [4] * 32, "num_attention_heads": None}, MissingField, "num_attention_heads"),
        ({"model_type": "newer", "layer_types": ["conv"] * 32, "conv_L_cache": 3, "hidden_size": None, "head_dim": 64},
         MissingField, "hidden_size"),
        ({"model_type": "nemotron-nas", "num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 5}}]},
         BadField, "a divisor of the 32 query heads"),
        ({"model_type": "nemotron-nas", "num_hidden_layers": 1, "block_configs": [{"attention": {}}]},
         MissingField, "n_heads_in_group"),
        ({"model_type": "nemotron-nas", "num_hidden_layers": 1, "num_attention_heads": None,
          "block_configs": [{"attention": {"n_heads_in_group": 8}}]}, MissingField, "num_attention_heads"),
        ({"model_type": "gla", "num_heads": 4, "expand_k": 0.5}, MissingField, "expand_v"),
        ({"model_type": "t5", "decoder_layers": 10**6, "num_layers": 10**6, "d_model": 64, "num_heads": 4, "n_positions": 512},
         BadField, "a number of layers up to 4096"),
        ({"model_type": "jamba", "attn_layer_period": 4}, BadField, "attn_layer_offset"),
    ],
)  # fmt: skip
def test_refusals_name_the_field(change: dict, error: type[KvplanError], named: str) -> None:
    with pytest.raises(error, match=named):
        model({**LLAMA, **change})


@pytest.mark.parametrize(
    "config", [{}, {"text_config": {}}, {"text_config": None, "hidden_size": 8}, {"vision_config": {}}]
)
def test_configs_of_something_else(config: dict) -> None:
    with pytest.raises(MissingField) as caught:
        model(config)
    assert caught.value.problem.hint


def test_a_silent_dtype_runs_in_16_bit_and_says_so() -> None:
    for dtype in ({}, {"torch_dtype": None}):
        found = model({**LLAMA, **dtype})
        assert found.dtype.name == "bf16"
        assert any(entry.field.endswith("dtype") for entry in found.defaulted)
    assert model({**LLAMA, "dtype": "float16"}).dtype.name == "fp16"


@pytest.mark.parametrize(
    ("extra", "companions", "name"),
    [
        ({"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}, {}, "fp8"),
        ({"quantization_config": {"quant_method": "fp8"}}, {}, None),
        ({}, {"hf_quant_config.json": {"quantization": {"kv_cache_quant_algo": "FP8"}}}, "fp8"),
        ({}, {"hf_quant_config.json": {"quantization": {"kv_cache_quant_algo": None}}}, None),
    ],
)
def test_the_cache_format_that_a_checkpoint_carries_scales_for(extra: dict, companions: dict, name: str | None) -> None:
    hint = read({**LLAMA, **extra}, Origin("test", "test"), companions).kv_hint
    assert (hint.k.name if hint else None) == name


def test_heads_of_zamba2_follow_from_their_size():
    """Zamba2-7B as first published states the size, 64, and no count, of which its class has 8: 2 x 3,584 / 64 are 112."""
    config = {
        "model_type": "zamba2", "architectures": ["Zamba2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 2,
        "layers_block_type": ["mamba", "hybrid"], "mamba_headdim": 64, "mamba_ngroups": 2, "state_size": 64,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "ffn_hidden_size": 14336,
    }  # fmt: skip
    model = read(config, Origin("a model", "a test"))
    state = next(cache for cache, _ in model.distinct if isinstance(cache, Recurrent))
    assert [tensor.widths for tensor in state.tensors] == [((112, 64), (2, 2 * 64)), ((112, 64 * 64),)]


def test_auto_is_no_dtype_at_any_depth() -> None:
    """vLLM 0.33 on Kimi-K2.6 and Qwen3-Omni so changed: module 'torch' has no attribute 'auto'."""
    nested = {"model_type": "llava", "torch_dtype": "auto", "text_config": {**LLAMA, "torch_dtype": "bfloat16"}}
    with pytest.raises(BadField, match="torch_dtype"):
        model(nested)


def test_layers_that_keep_an_image_by_the_class() -> None:
    """transformers 5.23 MllamaTextConfig: cross_attention_layers [3, 8, 13, 18, 23, 28, 33, 38] where the config has none."""
    text = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 40}
    images = [3, 8, 13, 18, 23, 28, 33, 38]
    silent, stated = (
        model({"model_type": "mllama", "text_config": {**text, **more}, "vision_config": {}})
        for more in ({}, {"cross_attention_layers": images})
    )
    found = [number for number, layer in enumerate(silent.layers) if isinstance(layer.caches[0], CrossAttention)]
    assert found == images
    assert silent.layers == stated.layers
    assert silent.weights == stated.weights
    assert [default.value for default in silent.defaulted if default.field.endswith("cross_attention_layers")] == [
        images
    ]
