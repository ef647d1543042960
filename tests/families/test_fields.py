"""Configs that say it in other words, and configs that can't be answered: each refused by the name of its field."""

from __future__ import annotations

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField, KvplanError, MissingField, Unsupported
from kvplan.families import read

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
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
        ({"max_position_embeddings": 1048576, "rope_scaling": {"type": "deepseek_yarn", "factor": 32, "original_max_position_embeddings": 32768}}, 1048576),
        ({"rope_scaling": {"rope_type": "linear", "factor": 8}}, 131072),
        ({"max_position_embeddings": None, "max_seq_len": 262144, "model_type": "unheard-of"}, 262144),
        ({"max_position_embeddings": 4096, "model_max_length": 10**30}, 4096),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        ({"max_position_embeddings": None, "model_type": "unheard-of"}, None),
    ],
)  # fmt: skip
def test_context_length(change: dict, length: int | None) -> None:
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
        ({"num_key_value_heads": [8] * 31}, BadField, "num_kv_heads"),
        ({"layer_types": ["full_attention"] * 31}, BadField, "layer_types"),
        ({"layer_types": ["quantum_attention"] * 32}, Unsupported, "quantum_attention"),
        ({"model_type": "new", "kv_compression_rate": 4}, Unsupported, "kv_compression_rate"),
        ({"model_type": "new", "mamba_d_state": 16}, Unsupported, "mamba_d_state"),
        ({"torch_dtype": "bfloat17"}, Unsupported, "torch_dtype"),
        ({"torch_dtype": 16}, BadField, "torch_dtype"),
        ({"model_type": "bert"}, Unsupported, "bert"),
        ({"quantization_config": {"kv_cache_scheme": {"num_bits": 3, "type": "int"}}}, Unsupported, "kv_cache_scheme"),
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


def test_a_float32_or_silent_dtype_runs_in_16_bit_and_says_so() -> None:
    for dtype in ({"torch_dtype": "float32"}, {}, {"torch_dtype": None}):
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
