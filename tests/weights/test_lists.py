"""Lists of modules that stay in 16 bit, in the words of a family's own checkpoints, and of prediction layers."""

from __future__ import annotations

import pytest
from weights.conftest import described

from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import BF16, FP16
from kvplan.arch.weights import UNLISTED
from kvplan.engines.vllm.layout.views import vllm

SIZES = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
SPARSE = {"num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2, "intermediate_size": 256}
INT4 = {
    "quant_method": "compressed-tensors",
    "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
CASES = {
    "mixtral": (SPARSE, "re:.*block_sparse_moe.experts.*", {"mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"}),
    "phimoe": (SPARSE, "model.layers.0.block_sparse_moe.experts", {"mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"}),
    "gpt_neox": ({"intermediate_size": 2048}, "re:.*attention.dense$", {"self_attn.o_proj"}),
    "falcon": ({"new_decoder_architecture": True, "num_kv_heads": 2}, "transformer.h.0.mlp.dense_h_to_4h", {"mlp.up_proj"}),
    "starcoder2": ({"intermediate_size": 2048, "num_key_value_heads": 2}, "re:.*mlp.c_fc", {"mlp.up_proj"}),
    "gptj": ({"n_embd": 512, "n_head": 8, "n_layer": 2}, "re:.*attn.out_proj", {"self_attn.o_proj"}),
    "gpt_bigcode": ({"n_embd": 512, "n_head": 8, "n_layer": 2}, "transformer.h.0.attn.c_proj", {"self_attn.o_proj"}),
    "opt": ({"ffn_dim": 2048, "word_embed_proj_dim": 512}, "model.decoder.layers.0.fc1", {"mlp.up_proj"}),
    "phi": ({"intermediate_size": 2048, "num_key_value_heads": 8}, "re:.*self_attn.dense", {"self_attn.o_proj"}),
    "llama": ({"intermediate_size": 2048, "num_key_value_heads": 2}, "model.layers.0", {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
    }),
}  # fmt: skip


def plain(block) -> set[str]:
    """Linear layers in 16 bit, biases and routers aside."""
    return {
        w.name
        for w in block
        if w.linear and w.stored in (BF16, FP16) and not w.name.endswith(".bias") and w.component != "router"
    }


@pytest.mark.parametrize("type_", CASES)
def test_modules_by_the_names_of_their_checkpoints(type_):
    sizes, entry, names = CASES[type_]
    weights = described(
        {**SIZES, **sizes, "model_type": type_, "quantization_config": {**INT4, "ignore": [entry]}}
    ).weights
    assert plain(weights.layers[0]) == names


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ([["mlp.gate_proj", "mlp.up_proj"], ["mlp.down_proj"]], {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}),
        ([], set()),
    ],
)  # fmt: skip
def test_gptq_of_some_modules_of_a_block(listed, names):
    block = {**GPTQ, "modules_in_block_to_quantize": listed}
    config = {
        **SIZES,
        "model_type": "llama",
        "intermediate_size": 2048,
        "num_key_value_heads": 2,
        "quantization_config": block,
    }
    assert plain(described(config).weights.layers[0]) == names


def test_keys_of_autoround_may_be_expressions():
    extra = {".*self_attn.*": {"bits": 8}, "mlp\\.down_proj$": {"bits": 16}}
    block = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "extra_config": extra}
    config = {
        **SIZES,
        "model_type": "llama",
        "intermediate_size": 2048,
        "num_key_value_heads": 2,
        "quantization_config": block,
    }
    bits = {w.name: w.stored.bits for w in described(config).weights.layers[1] if w.linear}
    assert bits == {
        "self_attn.q_proj": 8, "self_attn.k_proj": 8, "self_attn.v_proj": 8, "self_attn.o_proj": 8,
        "mlp.gate_proj": 4, "mlp.up_proj": 4, "mlp.down_proj": 16,
    }  # fmt: skip


def test_eight_bits_in_groups_of_32_have_a_byte_of_scale_each():
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32}}
    block = {"quant_method": "compressed-tensors", "config_groups": {"g": group}}
    config = {
        **SIZES,
        "model_type": "llama",
        "intermediate_size": 2048,
        "num_key_value_heads": 2,
        "quantization_config": block,
    }
    down = next(w for w in described(config).weights.layers[0] if w.name == "mlp.down_proj")
    assert down.stored.bytes(*down.shape) == 512 * 2048 + 512 * 2048 // 32


@pytest.mark.parametrize("entry", ["model.layers.2*", "re:.*layers\\.2\\..*", "mtp*", "re:^mtp.*", "mtp.layers.0*"])
def test_prediction_layers_stay_in_16_bit_by_either_name(entry):
    """Two layers and one that predicts, which checkpoints number 2 or call mtp."""
    config = {
        **SIZES, "model_type": "glm4_moe", "intermediate_size": 1024, "moe_intermediate_size": 256, "n_routed_experts": 4, "head_dim": 64,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "num_key_value_heads": 2, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
    }  # fmt: skip
    block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": [entry]}
    excepted = described({**config, "quantization_config": block}).weights
    assert {w.stored for w in excepted.draft if w.linear} == {BF16}
    assert "nvfp4" in {w.stored.name for w in excepted.layers[1]}
    packed = described({**config, "quantization_config": {**block, "ignore": ["lm_head"]}}).weights
    assert "nvfp4" in {w.stored.name for w in packed.draft}


def test_a_quantized_head_stands_beside_the_embedding_it_is_tied_to():
    config = {
        **SIZES,
        "model_type": "qwen3",
        "intermediate_size": 2048,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "tie_word_embeddings": True,
    }
    tied = described({**config, "quantization_config": GPTQ}).weights.bytes_on_rank(Parallel(), view=vllm("qwen3"))
    apart = described({**config, "quantization_config": {**GPTQ, "lm_head": True}}).weights.bytes_on_rank(
        Parallel(), view=vllm("qwen3")
    )
    rows, groups = 1024, 512 // 128  # rows are padded to 64
    assert apart - tied == rows * 512 // 2 + groups * rows * 2 + groups * rows // 2  # values, scales and zeros


LAYER = {**SIZES, "intermediate_size": 2048, "num_key_value_heads": 2}


def bytes_of(config: dict, *entries: str) -> int:
    """Bytes in a byte an element, but for what the entries name."""
    block = {"quant_method": "fp8", "modules_to_not_convert": list(entries)}
    return described({**config, "quantization_config": block}).weights.bytes


@pytest.mark.parametrize(
    ("type_", "sizes", "entry", "elements"),
    [
        ("lfm2", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}, "re:.*conv.in_proj", 3 * 512 * 512),
        ("lfm2", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}, "re:.*self_attn.out_proj", 512 * 512),
        ("granitemoehybrid", {"layer_types": ["attention"] * 2, "num_local_experts": 0, "shared_intermediate_size": 256},
         "re:.*shared_mlp.input_linear", 2 * 2 * 256 * 512),
        ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "head_dim": 64},
         "model.layers.1.mlp.experts.3.up_proj", 256 * 512),
        ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "head_dim": 64},
         "re:.*experts\\.[12]\\.down_proj", 2 * 2 * 256 * 512),
        ("llama", {}, "re:^model\\.language_model\\.layers\\.1\\.mlp\\.up_proj$", 2048 * 512),
        ("llama", {}, "model.layers.*.self_attn", 2 * (2 * 512 * 512 + 2 * 128 * 512)),
    ],
)  # fmt: skip
def test_elements_of_what_is_named(type_, sizes, entry, elements):
    """A scale a tensor and one for its input stay behind or go: a few bytes for each of them."""
    config = {**LAYER, "model_type": type_, **sizes}
    assert bytes_of(config, entry) - bytes_of(config) == pytest.approx(elements, abs=64)


def test_experts_of_several_formats_split_as_the_others():
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "head_dim": 64}
    config = {**LAYER, "model_type": "qwen3_moe", **sizes}
    block = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.experts.2"]}
    halves = [
        described({**config, "quantization_config": one}).weights.bytes_on_rank(Parallel(tp=2))
        for one in (block, {"quant_method": "fp8"})
    ]
    assert halves[0] - halves[1] == pytest.approx(3 * 256 * 512 // 2, abs=512)  # bits that rows don't share evenly


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (["model.layers.0.mlp.w9"], "model.layers.0.mlp.w9, which"),
        (["re:.*cross_mixer.*", "lm_head", "re:.*mlp.w9$"], "re:.*cross_mixer.* and 1 more"),
        (["lm_head", "model.embed_tokens", "re:.*mlp.gate$", "visual.blocks.0.attn.qkv", "re:.*layernorm", "model.layers.2.mlp"], None),
        (["re:.*q_proj", "model.layers.1", "*.down_proj", "up_proj"], None),
    ],
)  # fmt: skip
def test_names_that_nothing_goes_by_are_told(entries, told):
    """They may be modules in 16 bit: kvplan doesn't know, and says so."""
    block = {"quant_method": "fp8", "modules_to_not_convert": entries}
    weights = described({**LAYER, "model_type": "llama", "quantization_config": block}).weights
    if told is None:
        assert not weights.missing
    else:
        assert [part for part in weights.missing if part.startswith(UNLISTED) and told in part] == list(weights.missing)
        assert weights.missing
