"""Counts that claim to be exact: never with a part in the config that nobody read, or a head that only files tell of."""

from __future__ import annotations

import pytest
from weights.conftest import described
from weights.test_parameters import LLAMA_8B

from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Range
from kvplan.engines.vllm.memory.weights import weights as weights_of_vllm
from kvplan.report.assemble.common import model_info
from kvplan.report.views import words
from kvplan.sources.gpus import load_gpu

SMALL = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
}  # fmt: skip


def missing(config: dict) -> str:
    weights = described(config).weights
    assert weights is not None
    assert weights.exact is not bool(weights.missing)
    return ", ".join(weights.missing)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mm_vision_tower", "openai/clip-vit-large-patch14"),
        ("img_processor", {"name": "clip"}),
        ("vision_backbone_id", "dinosiglip-vit-so-224px"),  # OpenVLA's, 0.8 billion parameters
        ("audio_processor", {"name": "cascades"}),
        ("speech_lora", {"r": 320}),
        ("mm_projector_cfg", {"type": "mlp"}),
    ],
)
def test_parts_that_nobody_reads_are_named(field: str, value: object):
    assert field in missing({**SMALL, field: value})


def test_widths_that_nobody_reads_are_named_for_types_that_no_class_knows():
    assert "routed_hidden_dim" in missing({**SMALL, "model_type": "solar_pro", "routed_hidden_dim": 48})
    assert "routed_hidden_dim" not in missing(
        {**SMALL, "routed_hidden_dim": 48}
    )  # transformers' class has no use for it


def test_fields_that_shape_no_tensor_are_not():
    harmless = {
        "ep_size": 8,
        "prefill_chunk_size": 2048,
        "context_window_size": 4096,
        "use_cache": True,
        "image_size": 448,
    }
    assert missing({**SMALL, **harmless}) == ""
    assert missing(LLAMA_8B) == ""


MISTRAL3 = {
    "model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"],
    "text_config": {"model_type": "mistral", "hidden_size": 5120, "vocab_size": 131072},
    "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096},
}  # fmt: skip


def test_a_head_that_only_the_checkpoint_tells_of():
    """Mistral3Config ties, MistralConfig doesn't: Mistral-Small-3.1's files have a head of their own."""
    silent = described(MISTRAL3).weights
    assert silent.missing == ("head of its own, if the checkpoint has one",)
    untied, tied = (described({**MISTRAL3, "tie_word_embeddings": stated}).weights for stated in (False, True))
    assert untied.exact
    assert tied.exact
    assert untied.total - tied.total == 131072 * 5120
    assert silent.total == tied.total  # as transformers builds it without files


@pytest.mark.parametrize(("parallel", "head"), [(Parallel(), 2), (Parallel(tp=2), 1), (Parallel(pp=2), 0)])
def test_engines_count_the_head_that_may_be_there(parallel, head):
    """Likely as untied, at least as tied; with two stages the head is a second copy of the embedding in any case."""

    def counted(config: dict) -> Range:
        return weights_of_vllm(described(config), load_gpu("h100"), parallel, Options()).bytes

    silent = counted(MISTRAL3)
    untied, tied = (counted({**MISTRAL3, "tie_word_embeddings": stated}) for stated in (False, True))
    assert (silent.low, silent.likely, silent.high) == (tied.low, untied.likely, untied.high)
    assert untied.likely - tied.likely == head * 131072 * 5120


def test_the_first_chatglm():
    weights = described({
        "model_type": "chatglm", "hidden_size": 4096, "inner_hidden_size": 16384, "num_layers": 28, "num_attention_heads": 32,
        "vocab_size": 130528, "max_sequence_length": 2048,
    }).weights  # fmt: skip
    attention = 4096 * 12288 + 12288 + 4096 * 4096 + 4096
    mlp = 2 * 4096 * 16384 + 16384 + 4096
    assert weights.total == 28 * (attention + mlp + 4 * 4096) + 2 * 4096 + 2 * 130528 * 4096 == 6_707_929_088


def test_jamba_with_one_expert_has_no_router():
    config = {
        "model_type": "jamba", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 100, "mamba_dt_rank": 4,
    }  # fmt: skip
    counts = described({**config, "num_experts": 1}).weights.by_component()
    assert "router" not in counts
    assert "experts" not in counts
    assert counts["mlp"] == 8 * 3 * 64 * 96


def test_fuyu_s_patches_go_straight_in():
    weights = described({
        "model_type": "fuyu", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100,
        "patch_size": 30, "num_channels": 3,
        "text_config": {"model_type": "persimmon", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100},
    }).weights  # fmt: skip
    assert weights.by_component()["projector"] == 64 * 30 * 30 * 3 + 64


def test_kimi_s_experts_in_a_narrower_width():
    config = {
        "model_type": "kimi_linear", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "vocab_size": 100, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
        "num_experts": 6, "num_experts_per_token": 2, "moe_intermediate_size": 24, "num_shared_experts": 1, "first_k_dense_replace": 1,
        "linear_attn_config": {"full_attn_layers": [2], "kda_layers": [1], "head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4},
    }  # fmt: skip
    wide = described(config).weights.by_component()
    narrow = described({**config, "routed_expert_hidden_size": 32}).weights.by_component()
    assert wide["experts"] == 6 * 3 * 64 * 24
    assert narrow["experts"] == 6 * 3 * 32 * 24
    assert narrow["mlp"] - wide["mlp"] == 2 * 32 * 64


def test_what_a_tower_leaves_out_is_its_own_class_s():
    """SigLIP's class pools with a head; PaliGemma's own default for a whole missing tower doesn't."""
    config = {
        "model_type": "paligemma",
        "text_config": {"model_type": "gemma", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4,
                        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 100},
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "image_size": 28, "patch_size": 14},
    }  # fmt: skip
    pooled = described(config).weights.by_component()["vision"]
    config["vision_config"]["vision_use_head"] = False
    plain = described(config).weights.by_component()["vision"]
    assert pooled - plain == 32 + (3 * 32 * 32 + 3 * 32) + (32 * 32 + 32) + 2 * 32 + (2 * 32 * 48 + 48 + 32)


QWEN_7B = {
    "model_type": "qwen", "architectures": ["QWenLMHeadModel"], "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128,
    "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 151936, "no_bias": True, "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
}  # fmt: skip
VISUAL = {
    "heads": 16,
    "image_size": 448,
    "layers": 48,
    "mlp_ratio": 4.9231,
    "output_dim": 4096,
    "patch_size": 14,
    "width": 1664,
}
AUDIO = {
    "n_mels": 80,
    "n_ctx": 1500,
    "n_state": 1280,
    "n_head": 20,
    "n_layer": 32,
    "output_dim": 4096,
    "add_audio_bos_eos_token": True,
}


def test_qwen_vl_s_own_tower():
    """The checkpoint's 9,657,901,824 (configs-parameters.tsv) are these and the zero biases that AutoGPTQ writes."""
    plain, seeing = (described({**QWEN_7B, **more}).weights for more in ({}, {"visual": VISUAL}))
    assert seeing.exact
    layer = (4 * 1664 * 1664 + 4 * 1664) + (2 * 1664 * 8192 + 8192 + 1664) + 4 * 1664
    resampler = 2 * 256 * 4096 + 1664 * 4096 + 4 * 4096 * 4096 + 4 * 4096 + 4 * 4096
    ends = 3 * 14 * 14 * 1664 + 256 * 1664 + 2 * 1664 + 2 * 4096 + 4096 * 4096
    assert seeing.total - plain.total == 48 * layer + resampler + ends == 1_935_610_624
    zero_biases = 32 * (4096 + 2 * 11008 + 4096)
    assert seeing.total + zero_biases == 9_657_901_824


def test_qwen_audio_s_own_tower():
    plain, hearing = (described({**QWEN_7B, **more}).weights for more in ({}, {"audio": AUDIO}))
    assert hearing.exact
    layer = 4 * 1280 * 1280 + 3 * 1280 + (2 * 1280 * 5120 + 5120 + 1280) + 4 * 1280
    ends = (80 * 3 + 1280 * 3 + 2) * 1280 + 1500 * 1280 + 2 * 1280 + 1280 * 4096 + 4096 + 2 * 4096
    assert hearing.total - plain.total == 32 * layer + ends


@pytest.mark.parametrize("gone", ["mlp_ratio", "layers", "width"])
def test_a_tower_that_says_too_little_is_named(gone):
    assert "vision tower" in missing(
        {**QWEN_7B, "visual": {key: value for key, value in VISUAL.items() if key != gone}}
    )


WORDS = (
    "visual", "audio", "vision", "vit", "vit_config", "visual_config", "image_config", "gen_vision_config", "sam_config", "vpm_config",
    "vision_encoder_config", "whisper_config", "tts_config", "dvae_config", "mm_config", "flow_config", "eagle_config", "anything",
)  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "inner",
    [
        {"hidden_size": 1280, "num_hidden_layers": 32},
        {"width": 1664, "heads": 16},
        {"inner": {"n_embd": 64}},
        {"model_type": "siglip"},
    ],
)
def test_objects_that_describe_a_stack_are_named_whatever_they_are_called(word, inner):
    assert word in missing({**SMALL, word: inner})


@pytest.mark.parametrize(
    "inner",
    [
        {"max_length": 50, "num_beams": 4},
        {"bits": 4, "group_size": 128},
        {"0": "LABEL_0", "1": "LABEL_1"},
        {"model_type": "llama", "max_slice_nums": 9, "patch_size": 14},
        {"text-generation": {"do_sample": True, "max_length": 50}},
    ],
)
def test_objects_that_describe_settings_are_not(inner):
    assert missing({**SMALL, "anything": inner}) == ""


def test_fuyu_s_language_model_is_persimmon_s():
    """adept/fuyu-8b: sizes at the top, the text model's type alone inside. transformers 5.23 builds 9,408,238,592."""
    config = {
        "model_type": "fuyu", "architectures": ["FuyuForCausalLM"], "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 64,
        "num_hidden_layers": 36, "num_channels": 3, "patch_size": 30, "image_size": 300, "qk_layernorm": True, "vocab_size": 262144,
        "max_position_embeddings": 16384, "tie_word_embeddings": False, "text_config": {"model_type": "persimmon"},
    }  # fmt: skip
    weights = described(config).weights
    assert weights.exact
    assert weights.total == 9_408_238_592


def test_a_guess_by_llama_s_tensors_is_no_lower_bound():
    """Persimmon's plain MLP has two matrices, not three: a type that no table knows may have fewer parameters than Llama."""
    guess, short = (
        words.model_line(model_info(described(config)))
        for config in ({**SMALL, "model_type": "unheard_of"}, {**SMALL, "visual": {"width": 64}})
    )
    assert "about" in guess
    assert "at least" not in guess
    assert "at least" in short
