"""How checkpoints store weights: bytes of one matrix by hand, which modules are quantized, what-if."""

from __future__ import annotations

import pytest
from weights.conftest import bundled, described
from weights.test_parameters import LLAMA_8B

from kvplan.arch.formats import FORMATS
from kvplan.arch.storage import FP8_BLOCK, FP8_ROW, GGML, INT4, MXFP4, NAMED, NVFP4, integer
from kvplan.errors import BadField, UnknownName
from kvplan.families.quantization.mixes import kept_named

MATRICES = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
SIXTEEN_BIT = 8_030_261_248 - MATRICES


def quantized(block: dict, **fields) -> int:
    """Bytes of Llama 3 8B with this quantization_config."""
    return described({**LLAMA_8B, "quantization_config": block, **fields}).weights.bytes


def formats(block: dict, **fields) -> dict[str, set[str]]:
    """Formats of each module over the layers, by its name."""
    weights = described({**LLAMA_8B, "quantization_config": block, **fields}).weights
    found: dict[str, set[str]] = {}
    for weight in (weight for layer in (*weights.layers, weights.first, weights.last) for weight in layer):
        found.setdefault(weight.name.rpartition(".")[2], set()).add(weight.stored.name)
    return found


@pytest.mark.parametrize(
    ("storage", "rows", "columns", "expected"),
    [
        (FP8_BLOCK, 256, 300, 256 * 300 + 2 * 3 * 4),  # 128 x 128 blocks, the last one part filled
        (FP8_ROW, 256, 300, 256 * 300 + 256 * 4),
        (NVFP4, 64, 128, 64 * 128 // 2 + 64 * 8 + 8),  # a byte per 16, fp32 for the matrix and its input
        (MXFP4, 64, 128, 64 * 128 // 2 + 64 * 4),
        (INT4, 64, 256, 64 * 256 // 2 + 64 * 2 * 2 + 64 * 2 // 2),  # fp16 scale and packed zero point per 128
        (
            integer(4, -1, zero_bits=4, column_bits=32),
            64,
            256,
            64 * 256 // 2 + 64 * 20 // 8 + 256 * 4,
        ),  # GPTQ, one group, reordered
        (integer(3, 128, zero_bits=3), 128, 128, 128 * 128 * 3 // 8 + 128 * 19 // 8),
        (NAMED["q4_k"], 256, 512, 256 * 2 * 144),
        (GGML["q8_0"], 256, 512, 256 * 16 * 34),
        (NAMED["bf16"], 3, 5, 30),
    ],
)
def test_bytes_of_a_matrix(storage, rows, columns, expected):
    assert storage.bytes(rows, columns) == expected


def test_fp8_in_blocks_leaves_embeddings_head_and_norms():
    block = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
    assert quantized(block) == 2 * SIXTEEN_BIT + MATRICES + MATRICES // (128 * 128) * 4
    assert formats(block)["embed_tokens"] == formats(block)["lm_head"] == formats(block)["input_layernorm"] == {"bf16"}


def test_gptq_and_awq():
    index = 32 * 4 * (6 * 4096 + 14336)  # g_idx: 4 B for each input of 7 matrices in 32 layers, reordered or not
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert quantized(gptq) == 2 * SIXTEEN_BIT + MATRICES // 2 + MATRICES // 128 * 20 // 8 + index
    assert quantized({**gptq, "desc_act": True}) == quantized(gptq)
    awq = {"quant_method": "awq", "bits": 4, "group_size": 64}
    assert quantized(awq) == 2 * SIXTEEN_BIT + MATRICES // 2 + MATRICES // 64 * 20 // 8


def test_bitsandbytes_counts_its_scales_once_or_quantized():
    once = quantized({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"})
    assert once == 2 * SIXTEEN_BIT + MATRICES // 2 + MATRICES // 64 * 4
    twice = quantized({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True})
    assert twice == 2 * SIXTEEN_BIT + MATRICES // 2 + MATRICES // 64


ROWS = 32 * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096)
"""Outputs of the seven matrices."""


def test_eight_bits_have_a_scale_a_row():
    assert quantized({"quant_method": "bitsandbytes", "load_in_8bit": True}) == 2 * SIXTEEN_BIT + MATRICES + 4 * ROWS
    assert quantized({"quant_method": "eetq"}) == 2 * SIXTEEN_BIT + MATRICES + 2 * ROWS


def test_gptq_s_exceptions_keep_their_own_bits():
    """GPTQModel's dynamic: a module that an expression names has these bits and this group size instead, or is left alone."""
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    down, index = 32 * 4096 * 14336, 32 * 4 * (6 * 4096 + 14336)
    rest = MATRICES - down
    usual = 2 * SIXTEEN_BIT + rest // 2 + rest // 128 * 20 // 8 + index
    both = {"+:.*down_proj.*": {"bits": 8, "group_size": 64}}
    assert quantized({**gptq, "dynamic": both}) == usual + down + down // 64 * 24 // 8
    assert quantized({**gptq, "dynamic": {".*down_proj.*": {"bits": 8}}}) == usual + down + down // 128 * 24 // 8
    finer = {".*down_proj.*": {"group_size": 64}}
    assert quantized({**gptq, "dynamic": finer}) == usual + down // 2 + down // 64 * 20 // 8


@pytest.mark.parametrize(("kind", "group"), [("int4_weight_only", 128), ("Int4WeightOnlyConfig(group_size=64)", 64)])
def test_torchao_s_four_bits_have_a_scale_and_a_zero_point_a_group(kind, group):
    found = quantized({"quant_method": "torchao", "quant_type": kind})
    assert found == 2 * SIXTEEN_BIT + MATRICES // 2 + MATRICES // group * 4


@pytest.mark.parametrize(
    ("kind", "group", "beside"),
    [
        ("int8_dynamic_activation_int4_weight", 32, 6),
        ({"default": {"_type": "Int8DynamicActivationInt4WeightConfig", "_data": {"group_size": 64}}}, 64, 6),
        ({"default": {"_type": "Int8DynamicActivationIntxWeightConfig", "_data": {"weight_dtype": {"_type": "torch.dtype", "_data": "int4"},
          "weight_granularity": {"_type": "PerGroup", "_data": {"group_size": 64}}}}}, 64, 3),
    ],
)  # fmt: skip
def test_torchao_s_four_bits_beside_quantized_activations_take_a_byte_each(kind, group, beside):
    """quant_api.py: target_dtype = torch.int8 in the plain layout, zero points of 4 bytes; IntxUnpackedToInt8Tensor of 1."""
    found = quantized({"quant_method": "torchao", "quant_type": kind})
    assert found == 2 * SIXTEEN_BIT + MATRICES + MATRICES // group * beside


def test_torchao_s_group_may_stand_beside_its_type():
    """transformers' TorchAoConfig before 5 writes quant_type_kwargs."""
    beside = {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 32}}
    assert quantized(beside) == 2 * SIXTEEN_BIT + MATRICES // 2 + MATRICES // 32 * 4


def test_torchao_s_types_by_module():
    """ModuleFqnToConfig: `_default` for the rest, null for what stays. Source: vLLM 0.33 quantization/torchao.py."""
    four, eight = ({"_type": f"Int{bits}WeightOnlyConfig", "_data": {}} for bits in (4, 8))
    by_name = {"_default": four, "re:.*down_proj": eight, "model.layers.3.mlp.up_proj": None}
    data = {"module_fqn_to_config": by_name}
    found = formats(
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "ModuleFqnToConfig", "_data": data}}}
    )
    assert found["q_proj"] == {"int4 in groups of 128"}
    assert found["down_proj"] == {"int8 per channel"}
    assert found["up_proj"] == {"int4 in groups of 128", "bf16"}


@pytest.mark.parametrize(
    "kind",
    [
        "int4_dynamic_activation_int4_weight",
        {"default": {"_type": "Int8DynamicActivationInt4WeightConfig", "_data": {"layout": {"_type": "MarlinQQQLayout"}}}},
        {"default": {"_type": "Int8WeightOnlyConfig", "_data": {"group_size": 64}}},
        {"default": {"_type": "ModuleFqnToConfig", "_data": {"module_fqn_to_config": {"_default": {"_type": "GemliteConfig"}}}}},
    ],
)  # fmt: skip
def test_what_torchao_has_more_is_not_known(kind):
    weights = described({**LLAMA_8B, "quantization_config": {"quant_method": "torchao", "quant_type": kind}}).weights
    assert weights.missing == ("format of the weights (torchao)",)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("float8_weight_only", "fp8 per channel"),
        ("int8_weight_only", "int8 per channel"),
        ("uintx_weight_only", "bf16"),
    ],
)
def test_torchao_s_other_types(kind, name):
    block = {"quant_method": "torchao", "quant_type": kind, "modules_to_not_convert": ["down_proj"]}
    assert formats(block)["up_proj"] == {name}
    assert formats(block)["down_proj"] == {"bf16"}
    missing = described({**LLAMA_8B, "quantization_config": block}).weights.missing
    assert missing == (("format of the weights (torchao)",) if name == "bf16" else ())


def test_ignore_lists_by_name_by_layer_and_by_expression():
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
        },
    }
    for ignore, kept in (
        (["lm_head", "re:.*self_attn.*"], {"q_proj", "k_proj", "v_proj", "o_proj"}),
        (["lm_head", "model.layers.3.mlp.down_proj"], {"down_proj"}),
        (["model.layers.0*", "model.layers.31.*"], {"q_proj", "gate_proj"}),
        (["mlp.gate_proj"], {"gate_proj"}),
        (["re:model[.]layers[.]1[.].*"], {"q_proj"}),
    ):
        found = formats({**block, "ignore": ignore})
        assert all("bf16" in found[name] for name in kept), ignore
        assert "fp8 per channel" in found["up_proj"]
    assert formats({**block, "ignore": ["model.layers.3.mlp.down_proj"]})["down_proj"] == {"bf16", "fp8 per channel"}


def test_config_groups_name_their_modules():
    groups = {
        "group_0": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}},
        "group_1": {
            "targets": ["re:.*mlp.*"],
            "weights": {"num_bits": 4, "type": "float", "group_size": 16},
            "input_activations": {},
        },
    }
    found = formats({"quant_method": "compressed-tensors", "config_groups": groups})
    assert found["q_proj"] == {"fp8 per tensor"}
    assert found["up_proj"] == {"nvfp4"}
    assert found["lm_head"] == {"bf16"}


def test_modelopt_layer_by_layer():
    layers = {
        f"model.layers.{n}.mlp.{p}": {"quant_algo": "NVFP4", "group_size": 16}
        for n in range(32)
        for p in ("gate_proj", "up_proj", "down_proj")
    }
    layers |= {"model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"}, "lm_head": {"quant_algo": "FP8"}}
    found = formats({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    assert found["gate_proj"] == {"nvfp4"}
    assert found["q_proj"] == {"fp8 per tensor", "bf16"}
    assert found["k_proj"] == {"bf16"}
    assert found["lm_head"] == {"fp8 per tensor"}


def test_modelopt_s_companion_counts_when_the_config_is_silent():
    from kvplan.arch.model import Origin
    from kvplan.families import read

    side = {
        "hf_quant_config.json": {
            "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]}
        }
    }
    weights = read(LLAMA_8B, Origin("x", "x"), side).weights
    mlp = 32 * 3 * 4096 * 14336
    assert weights.bytes == 2 * (8_030_261_248 - mlp) + mlp // 2 + mlp // 16 + 32 * 3 * 8


def test_mlx_quantizes_the_tables_too_and_takes_overrides():
    found = formats(
        {"bits": 4, "group_size": 64, "model.layers.0.mlp.up_proj": {"bits": 8, "group_size": 64}, "lm_head": False}
    )
    assert found["embed_tokens"] == {"int4 in groups of 64"}
    assert found["lm_head"] == {"bf16"}
    assert found["up_proj"] == {"int4 in groups of 64", "int8 in groups of 64"}


def test_mxfp4_is_for_experts_alone():
    weights = bundled("gpt-oss-20b").weights
    stored = {weight.component: weight.stored.name for weight in weights.layers[0] if weight.linear}
    assert stored == {"attention": "bf16", "router": "bf16", "experts": "mxfp4"}


def test_an_unknown_method_is_named_and_not_guessed():
    weights = described({**LLAMA_8B, "quantization_config": {"quant_method": "aqlm"}}).weights
    assert not weights.exact
    assert "format of the weights (aqlm)" in weights.missing
    assert weights.bytes == 2 * weights.total


@pytest.mark.parametrize(
    "block",
    [
        {"quant_method": "gptq", "bits": 0},
        {"quant_method": "awq", "group_size": -7},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
    ],
)
def test_impossible_numbers_are_refused(block):
    with pytest.raises(BadField):
        described({**LLAMA_8B, "quantization_config": block})


def test_weights_kept_in_another_format_keep_their_number():
    weights = described(LLAMA_8B).weights
    assert weights.stored_as(NAMED["fp32"]).bytes == 4 * 8_030_261_248
    fp8 = weights.stored_as(NAMED["fp8"])
    assert fp8.bytes == 2 * SIXTEEN_BIT + MATRICES + 32 * 4 * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096)
    assert fp8.total == weights.total
    four = bundled("gpt-oss-20b").weights
    assert four.stored_as(NAMED["bf16"]).bytes == 2 * four.total


def test_an_unknown_format_lists_the_known_ones():
    with pytest.raises(UnknownName) as caught:
        kept_named("fp3")
    assert "nvfp4" in caught.value.problem.hint


def test_a_ggml_type_has_the_same_bits_in_weights_and_cache():
    shared = GGML.keys() & FORMATS.keys()
    assert {name: GGML[name].bits for name in shared} == {name: FORMATS[name].bits for name in shared}
    assert shared == {"q8_0", "q5_1", "q5_0", "q4_1", "q4_0"}
