"""Drafts that head a target: what vLLM 0.33 constructs and holds after it shared what their checkpoints lack."""

from __future__ import annotations

from typing import Any

import pytest
from weights.conftest import bundled, described

from kvplan.arch.extras import with_draft
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.engines.vllm.memory.weights import weights as weights_of_vllm
from kvplan.errors import BadField
from kvplan.sources.gpus import load_gpu

SIZES: dict[str, Any] = {
    "attention_bias": False, "head_dim": 128, "hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32,
    "num_key_value_heads": 8, "tie_word_embeddings": True, "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
}  # fmt: skip
EAGLE3 = {
    "architectures": ["Eagle3LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1, "draft_vocab_size": 32000, **SIZES,
}  # fmt: skip
"""AngelSlim's draft for Qwen3-4B."""
DFLASH = {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 5, "num_target_layers": 36, "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]}, **SIZES,
}  # fmt: skip
TABLE = 151936 * 2560


def test_eagle3_by_hand():
    weights = described(EAGLE3).weights
    layer = 2 * 2560 * (4096 + 2 * 1024) + 4096 * 2560 + 3 * 2560 * 9728 + 3 * 2560
    ends = 3 * 2560 * 2560 + 2560 + 32000 * 2560
    assert weights.total == layer + ends
    assert round(weights.total * 2 / 1e6) == 436
    assert round((weights.total + sum(weight.parameters for weight in weights.borrowed)) * 2 / 1e6) == 1214
    assert not weights.exact
    assert weights.missing == ("embedding of its own, if the checkpoint has one",)


def test_dflash_by_hand():
    weights = described(DFLASH).weights
    layer = 2560 * (4096 + 2 * 1024) + 4096 * 2560 + 3 * 2560 * 9728 + 2 * 2560 + 2 * 128
    assert weights.total == 5 * layer + 5 * 2560 * 2560 + 3 * 2560
    assert sum(weight.parameters for weight in weights.borrowed) == 2 * TABLE
    assert round(weights.total * 2 / 1e6) == 1075
    assert round((weights.total + 2 * TABLE) * 2 / 1e6) == 2631
    assert not weights.exact


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"draft_vocab_size": None}, (151936 - 32000) * 2560),
        ({"target_hidden_size": 4096}, 3 * 1536 * 2560),
        ({"num_aux_hidden_states": 2}, -2560 * 2560),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]}}, 2560 * 2560),
        ({"norm_before_fc": True}, 3 * 2560),
        ({"fc_norm": True}, 3 * 2560),
        ({"num_hidden_layers": 2}, 2560 * (4096 + 2 * 1024) + 4096 * 2560 + 3 * 2560 * 9728 + 3 * 2560),
    ],
)  # fmt: skip
def test_fields_of_eagle3(change, more):
    assert described({**EAGLE3, **change}).weights.total - described(EAGLE3).weights.total == more


@pytest.mark.parametrize(
    "name",
    ["EagleLlamaForCausalLM", "QwenDFlareDraftModel", "CosyVoice3Eagle3LlamaForCausalLM", "Eagle3Qwen3ForCausalLM"],
)
def test_drafts_that_no_table_knows_are_never_exact(name):
    assert name in ", ".join(described({**EAGLE3, "architectures": [name]}).weights.missing)


@pytest.mark.parametrize(("pp", "kept"), [(1, 0), (2, TABLE)])
def test_the_likely_is_what_is_held_and_the_high_end_what_is_built(pp, kept):
    target, draft = bundled("qwen3-8b"), described(EAGLE3)
    asked = Options(speculative_tokens=3)
    term = next(
        one
        for one in weights_of_vllm(with_draft(target, draft), load_gpu("h100"), Parallel(pp=pp), asked).parts
        if one.name == "draft"
    )
    held = draft.weights.total * 2
    assert (term.bytes.low, term.bytes.likely, term.bytes.high) == (held, held + kept * 2, held + TABLE * 2)


@pytest.mark.parametrize(("pp", "kept"), [(1, 0), (2, TABLE)])
def test_beside_weights_given_by_hand_too(pp, kept):
    served, given = with_draft(bundled("qwen3-8b"), described(EAGLE3)), 10**10
    asked = Options(weights_per_gpu=given, speculative_tokens=3)
    found = weights_of_vllm(served, load_gpu("h100"), Parallel(pp=pp), asked).bytes
    likely = given + (described(EAGLE3).weights.total + kept) * 2
    assert (found.low, found.likely, found.high) == (likely, likely, likely + (TABLE - kept) * 2)


ASSISTANT: dict[str, Any] = {
    "architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant", "backbone_hidden_size": 1536,
    "use_ordered_embeddings": True, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma4_text", "hidden_size": 256, "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0, "vocab_size": 262144, "num_kv_shared_layers": 4, "sliding_window": 512,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    },
}  # fmt: skip
"""Gemma 4 E2B's drafter: transformers 5.23 models/gemma4_assistant, vLLM 0.33 models/gemma4_mtp.py."""


def test_a_draft_that_reads_its_target_s_cache_has_queries_alone():
    model = described(ASSISTANT)
    assert [layer.caches for layer in model.layers] == [()] * 4
    assert any("serves as --draft" in note for note in model.notes)
    mlp_and_norms = 3 * 256 * 2048 + 4 * 256
    layers = 4 * mlp_and_norms + 3 * (2 * 256 * 4 * 256 + 256) + (2 * 256 * 4 * 512 + 512)
    ends = 262144 * 256 + 256 + 256 * 2 * 1536 + 1536 * 256 + 2048 * 256 + 262144 * 8 // 2
    assert model.weights is not None
    assert model.weights.total == layers + ends
    assert model.weights.missing == ()


def test_what_it_shares_need_not_be_stated():
    """Gemma4AssistantConfig.__post_init__: all layers."""
    silent = {name: value for name, value in ASSISTANT["text_config"].items() if name != "num_kv_shared_layers"}
    assert described({**ASSISTANT, "text_config": silent}).layers == described(ASSISTANT).layers


@pytest.mark.parametrize("shared", [4, 3, 1])
def test_a_target_s_layers_read_one_before_them(shared):
    """vLLM 0.33 models/gemma4.py: ValueError, "is not in list", for each of them."""
    text = {**ASSISTANT["text_config"], "num_kv_shared_layers": shared, "architectures": ["Gemma4ForCausalLM"]}
    with pytest.raises(BadField, match="num_kv_shared_layers") as refused:
        described(text)
    assert refused.value.problem.hint
