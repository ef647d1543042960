"""The same small models in transformers on the meta device: parameters and cache bytes agree."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")
pytest.importorskip("transformers", reason="needs transformers, the meta extra")

from cli.running import run
from verify import tiny

from kvplan import families
from kvplan.arch.model import Origin
from kvplan.errors import UsageError
from kvplan.verify.meta import against_transformers, rows_against

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
KINDS = (
    "gqa",
    "sliding",
    "sink logits and experts",
    "chunked",
    "mla",
    "sparse mla",
    "gated delta net",
    "shared",
    "attention beside mamba2",
)


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_agrees(kind):
    config = {**tiny.COMMON, **tiny.CONFIGS[kind]}
    rows = {row.what: row for row in rows_against(tiny.model(kind), config)}
    assert rows["parameters"].verdict == "confirmed", rows
    assert rows["cache after a prefill of 1,000 tokens"].verdict == "confirmed", rows


LAID_OUT_OTHERWISE = {
    "keys and values repeated for all query heads": {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2},
    "a window that doesn't count the query": {
        "model_type": "mimo_v2_flash", "sliding_window": 32, "sliding_window_size": 32, "v_head_dim": 8, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "hybrid_layer_pattern": [0, 1, 1],
        "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 16, "swa_v_head_dim": 8,
        "moe_layer_freq": [0, 1, 1],
    },
    "windows, compressed latents and index keys": {
        "model_type": "deepseek_v4", "num_key_value_heads": 1, "num_attention_heads": 8, "sliding_window": 32, "head_dim": 16,
        "compress_ratios": [0, 4, 128], "index_head_dim": 16, "index_n_heads": 4, "index_topk": 16, "q_lora_rank": 24,
        "o_lora_rank": 16, "o_groups": 2, "qk_rope_head_dim": 8, "moe_intermediate_size": 32, "n_routed_experts": 8,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "num_hash_layers": 1, "num_nextn_predict_layers": 0,
    },
    "an encoder that hears": {
        "model_type": "whisper", "d_model": 64, "decoder_attention_heads": 4, "decoder_ffn_dim": 96, "decoder_layers": 3,
        "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "encoder_layers": 3, "max_source_positions": 50,
        "max_target_positions": 1200, "num_mel_bins": 8, "tie_word_embeddings": True, "pad_token_id": 0,
    },
    "an encoder that reads": {
        "model_type": "bart", "d_model": 64, "decoder_attention_heads": 4, "decoder_ffn_dim": 96, "decoder_layers": 3,
        "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "encoder_layers": 3, "max_position_embeddings": 1200,
        "tie_word_embeddings": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", LAID_OUT_OTHERWISE)
def test_what_transformers_lays_out_otherwise_is_compared_as_it_lies_there(kind):
    config = {**tiny.COMMON, **LAID_OUT_OTHERWISE[kind]}
    if config["model_type"] == "falcon":
        del config["head_dim"]  # its class works it out
    rows = tuple(rows_against(families.read(config, Origin("tiny", "made for this test")), config))
    assert {row.verdict for row in rows if row.core} == {"confirmed"}, rows


def test_a_class_that_is_another_model_refutes_nothing():
    """Hunyuan-Large's layers share caches by twos; transformers has the class without."""
    config = {
        **tiny.COMMON, "model_type": "hunyuan_v1_moe", "use_cla": True, "cla_share_factor": 2, "num_experts": 4, "moe_topk": 1,
        "num_hidden_layers": 4,
    }  # fmt: skip
    (row,) = rows_against(families.read(config, Origin("tiny", "made for this test")), config)
    assert row.verdict == "not run"
    assert "use_cla" in row.rule


def test_a_head_for_rewards_is_not_one_for_words():
    config = {**tiny.COMMON, "model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}
    rows = {row.what: row for row in rows_against(families.read(config, Origin("tiny", "made for this test")), config)}
    assert rows["parameters"].verdict == "not run"
    assert rows["cache after a prefill of 64 tokens"].verdict == "confirmed"


def test_parts_under_other_names_are_not_compared_with_the_class_s_defaults():
    """Qwen3-ASR's own config keeps both parts in thinker_config; transformers looks for two others."""
    text = {**tiny.COMMON, "model_type": "qwen3"}
    config = {"model_type": "gemma3", "thinker_config": {"text_config": text}}
    (row,) = rows_against(tiny.model("gqa"), config)
    assert row.verdict == "not run"
    assert "the config has thinker_config" in row.rule


def test_what_transformers_says_is_cut_to_a_sentence():
    """It lists all the types that it knows, some hundred."""
    config = {**tiny.COMMON, "model_type": "nothing-of-the-kind"}
    (row,) = rows_against(tiny.model("gqa"), config)
    assert row.rule == "ValueError: Unrecognized model identifier: nothing-of-the-kind"


def test_the_command(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**tiny.COMMON, **tiny.CONFIGS["gqa"]}))
    result = run("verify", str(path), "--meta", "--json")
    assert result.code == 0
    assert result.document["verdict"] == "confirmed"
    assert {row["check"] for row in result.document["rows"]} == {"meta"}
    assert run("verify", "--meta").code == 2


def test_what_it_cannot_read(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text("kvplan: 1\nlayers: 2\nheads: 4\nkv_heads: 2\nhead_dim: 16\n")
    with pytest.raises(UsageError, match="kvplan description"):
        against_transformers(str(path))


def test_a_tower_is_counted_and_no_picture_is_looked_for():
    """Gemma 3's text model beside a vision tower: parameters of both, the cache of the text alone."""
    text = {
        **tiny.COMMON,
        "model_type": "gemma3_text",
        "layer_types": ["full_attention"] * 3,
        "tie_word_embeddings": True,
    }
    config = {
        "model_type": "gemma3", "torch_dtype": "bfloat16", "mm_tokens_per_image": 4, "text_config": text,
        "vision_config": {
            "model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 56, "patch_size": 14,
        },
    }  # fmt: skip
    model = families.read(config, Origin("tiny", "made for this test"))
    assert model.weights is not None
    assert model.weights.towers
    rows = {row.what: row for row in rows_against(model, config)}
    assert rows["parameters"].verdict == "confirmed", rows
    assert rows["cache after a prefill of 64 tokens"].measured == 64 * 3 * 2 * 2 * 16 * 2
