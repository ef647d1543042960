"""Tensors that every tensor rank holds whole, or twice: bytes of the tensors that vLLM 0.33 itself builds on a rank."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fullest import fullest

from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import GPTQ_SOURCE, HEADERS_SOURCE, Storage, integer
from kvplan.arch.weights import Weight
from kvplan.engines.vllm.layout.views import view_of, vllm
from kvplan.families import read

PERSIMMON = {
    "model_type": "persimmon", "architectures": ["PersimmonForCausalLM"], "vocab_size": 262144, "hidden_size": 4096,
    "intermediate_size": 16384, "num_hidden_layers": 36, "num_attention_heads": 64, "max_position_embeddings": 16384,
    "tie_word_embeddings": False,
}  # fmt: skip
CTRL = {
    "model_type": "ctrl", "architectures": ["CTRLLMHeadModel"], "vocab_size": 246534, "n_positions": 256, "n_embd": 1280,
    "dff": 8192, "n_layer": 48, "n_head": 16, "tie_word_embeddings": True,
}  # fmt: skip
JETMOE = {
    "model_type": "jetmoe", "architectures": ["JetMoeForCausalLM"], "vocab_size": 32000, "hidden_size": 2048,
    "num_hidden_layers": 12, "num_key_value_heads": 16, "kv_channels": 128, "intermediate_size": 5632,
    "max_position_embeddings": 4096, "num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": True,
}  # fmt: skip
JAMBA = {
    "model_type": "jamba", "architectures": ["JambaForCausalLM"], "attn_layer_offset": 7, "attn_layer_period": 14,
    "expert_layer_offset": 1, "expert_layer_period": 2, "hidden_size": 2560, "intermediate_size": 8192,
    "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_dt_rank": 160, "mamba_expand": 2,
    "mamba_proj_bias": False, "max_position_embeddings": 262144, "num_attention_heads": 20, "num_experts": 1,
    "num_experts_per_tok": 1, "num_hidden_layers": 28, "num_key_value_heads": 1, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "vocab_size": 65536,
}  # fmt: skip
WHISPER = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 1280,
    "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "decoder_layers": 2, "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120, "encoder_layers": 32, "is_encoder_decoder": True, "max_source_positions": 1500,
    "max_target_positions": 448, "num_hidden_layers": 32, "num_mel_bins": 128, "torch_dtype": "float16", "vocab_size": 51866,
}  # fmt: skip

ON_A_RANK = [
    (PERSIMMON, 1, 18_794_351_296), (PERSIMMON, 2, 16_646_867_648),
    (CTRL, 1, 3_276_896_000), (CTRL, 2, 2_961_258_240),
    (JETMOE, 1, 8_587_776_704), (JETMOE, 2, 8_522_240_704),
    (JAMBA, 2, 3_200_701_216),
    (WHISPER, 2, 831_017_024), (WHISPER, 4, 490_073_664),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "tp", "built"), ON_A_RANK, ids=lambda value: value if isinstance(value, int) else ""
)
def test_bytes_on_a_rank(config, tp, built):
    model = read(config, Origin("a model", "a test"))
    assert model.weights is not None
    assert model.weights.bytes_on_rank(Parallel(tp=tp), 0, view_of(model)) == pytest.approx(built, rel=2e-3)


TOWER = {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
         "num_attention_heads": 18, "patch_size": 14, "image_size": 896}  # fmt: skip
GEMMA3 = {
    "model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "vision_config": TOWER,
    "mm_tokens_per_image": 256,
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 4,
                    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
                    "max_position_embeddings": 131072, "sliding_window": 1024},
}  # fmt: skip


@pytest.mark.parametrize(("tp", "whole"), [(2, False), (4, True)])
def test_towers_whose_heads_ranks_cannot_share_are_whole(tp, whole):
    """18 heads over 4 ranks: 27 layers x (4 x 1152^2 + 2 x 1152 x 4304) matrices in 2 bytes stay on every rank."""
    model = read(GEMMA3, Origin("a model", "a test"))
    assert model.weights is not None
    view = view_of(model)
    tower = model.weights.bytes_on_rank(Parallel(tp=tp), 0, view) - model.weights.bytes_on_rank(
        Parallel(tp=tp), 0, replace(view, towers=False)
    )
    matrices = 27 * (4 * 1152**2 + 2 * 1152 * 4304) * 2
    rest = tower - (matrices if whole else matrices // tp)
    assert 0 < rest < 50_000_000  # positions, projector and pooling head, which are never split


QWEN3_MOE = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 151936, "decoder_sparse_step": 1,
    "max_position_embeddings": 262144, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "mlp_only_layers": [],
}  # fmt: skip
AWQ = {"quant_method": "awq", "bits": 4, "zero_point": True, "version": "gemm", "modules_to_not_convert": ["mlp.gate"]}


@pytest.mark.parametrize(
    ("group", "tp", "built"), [(128, 8, 2_408_706_816), (128, 4, 4_428_526_336), (64, 8, 2_411_164_416)]
)
def test_groups_of_experts_are_halved_until_they_divide_a_share(group, tp, built):
    """768 / 8 = 96 inputs of a rank: groups of 32."""
    model = read({**QWEN3_MOE, "quantization_config": {**AWQ, "group_size": group}}, Origin("a model", "a test"))
    assert model.weights is not None
    assert model.weights.bytes_on_rank(Parallel(tp=tp), 0, view_of(model)) == pytest.approx(built, rel=1e-4)


@pytest.mark.parametrize(("component", "element_bytes"), [("attention", 2), ("mlp", 2), ("router", 4)])
def test_files_in_32_bit_are_loaded_in_the_models_16(component, element_bytes):
    """vLLM 0.33 built 3,934,752 B of a small Llama in F32 files, as of the same one in BF16 files; routers stay wide."""
    filed = Storage("as stored", 32, source=HEADERS_SOURCE)
    weight = Weight("a matrix", (64, 64), component, filed, split=0, linear=True)
    assert weight.bytes_on_rank(Parallel(), vllm("llama")) == 64 * 64 * element_bytes


def test_scales_among_measured_bytes_are_not_counted_again():
    """Files gave 2,048 bits of scales for 64 rows: 64 x 64 x 4 + 2,048 bits are 2,304 B, whatever the groups."""
    measured = Storage("as stored", 4, group=64, row_bits=32, source=GPTQ_SOURCE)
    weight = Weight("a matrix", (64, 64), "experts", measured, split=1, copies=1, picked=1, linear=True)
    assert weight.bytes_on_rank(Parallel(), vllm("qwen3_moe")) == 2304


@pytest.mark.parametrize(("ordered", "index_bytes"), [(False, 0), (True, 4 * 64)])
def test_the_index_of_gptqs_groups_is_kept_where_inputs_were_reordered(ordered, index_bytes):
    """64 x 64 in 4 bit with 20 bits for each of 64 groups, and 4 B for each of 64 inputs."""
    weight = Weight(
        "a matrix", (64, 64), "attention", integer(4, 64, zero_bits=4, column_bits=32), split=0, linear=True
    )
    assert weight.bytes_on_rank(Parallel(), vllm("llama", ordered=ordered)) == 64 * 64 // 2 + 64 * 20 // 8 + index_bytes


MIXTRAL = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768, "torch_dtype": "float16",
    "tie_word_embeddings": False,
}  # fmt: skip
QWEN15_MOE = {
    "model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 5632,
    "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16,
    "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1, "vocab_size": 151936,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
GATES = {**AWQ, "group_size": 128, "modules_to_not_convert": ["gate", "shared_expert_gate"]}


@pytest.mark.parametrize(
    ("config", "stored", "tp", "built"),
    [
        (MIXTRAL, GPTQ, 1, 24_678_769_152), (MIXTRAL, GPTQ, 8, 3_096_322_560),
        (QWEN15_MOE, GATES, 1, 9_191_690_624), (QWEN15_MOE, GATES, 4, 2_491_339_136),
    ],
)  # fmt: skip
def test_ranks_of_quantized_experts(config, stored, tp, built):
    """vLLM 0.33's own planner: GPTQ's experts have zero points and biases; AWQ's "gate" is in "gate_up_proj" too."""
    model = read({**config, "quantization_config": stored}, Origin("a model", "a test"))
    assert model.weights is not None
    assert fullest(model.weights, Parallel(tp=tp), view_of(model)) == pytest.approx(built, rel=1e-5)


@pytest.mark.parametrize(
    ("family", "name", "bits"),
    [("jamba", "mamba.in_proj", 16), ("jamba", "mamba.A_log", 32), ("llama", "mamba.in_proj", 8)],
)
def test_mixers_of_mamba_are_not_quantized(family, name, bits):
    """vLLM 0.33 layers/mamba/mamba_mixer.py gives its matrices no quantization, and its rates fp32."""
    stored = Storage("fp8", 8, row_bits=32)
    weight = Weight(name, (64, 64), "recurrent", stored, split=0, linear=True)
    scales = 64 * 4 if bits == 8 else 0
    assert weight.bytes_on_rank(Parallel(), vllm(family)) == 64 * 64 * bits // 8 + scales
