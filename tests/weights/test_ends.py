"""Ends by the class that a config names: parameters that vLLM 0.33 constructs, asked of it on the meta device."""

from __future__ import annotations

from typing import Any

import pytest
from weights.conftest import described

from kvplan.arch.weights import UNSURE_HEAD, Weights

QWEN2: dict[str, Any] = {
    "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "use_sliding_window": False,
}  # fmt: skip
HEAD = 152064 * 3584
JAMBA: dict[str, Any] = {
    "model_type": "jamba", "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "num_experts": 1,
    "intermediate_size": 1024, "vocab_size": 1000, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def weights(config: dict[str, Any], architecture: str) -> Weights:
    found = described({**config, "architectures": [architecture]}).weights
    assert found is not None
    return found


@pytest.mark.parametrize(("architecture", "labels"), [("Qwen2ForRewardModel", 1), ("Qwen2ForProcessRewardModel", 2)])
def test_a_reward_of_two_layers_in_32_bit(architecture, labels):
    """vLLM 0.33: 14,201,036,228 bytes of a reward's, 14,149,656,000 of a classifier's with 2 x 3584 numbers in 32 bit."""
    found, classifier = weights(QWEN2, architecture), weights(QWEN2, "Qwen2ForSequenceClassification")
    assert found.bytes - classifier.bytes == 4 * (3584 * 3584 + 3584 + labels * 3584 + labels)
    assert 14201036228 - 14149656000 + 4 * 2 * 3584 == 4 * (3584 * 3584 + 3584 + 3584 + 1)
    assert found.exact


def test_a_bare_model_may_be_built_with_a_head():
    """vLLM 0.33 takes 15,239,622,080 bytes for Qwen2Model as for Qwen2ForCausalLM; an embedding folder has none."""
    bare, causal = weights(QWEN2, "Qwen2Model"), weights(QWEN2, "Qwen2ForCausalLM")
    assert bare.missing == (UNSURE_HEAD,)
    assert causal.total - bare.total == HEAD
    assert bare.unsure_head
    assert weights({**QWEN2, "tie_word_embeddings": True}, "Qwen2Model").exact


def test_jamba_s_classifier_keeps_the_head():
    assert weights(JAMBA, "JambaForSequenceClassification").total == weights(JAMBA, "JambaForCausalLM").total


@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_5_moe"])
def test_a_language_model_s_class_builds_no_tower(kind):
    """vLLM 0.33: 17,911,802,496 bytes with Qwen3_5ForCausalLM, whether its config is the whole's or the text's."""
    name = {"qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe"}[kind]
    text = {"model_type": f"{kind}_text", "num_hidden_layers": 4, "vocab_size": 1000}
    whole = {
        "model_type": kind,
        "text_config": text,
        "vision_config": {"model_type": kind},
        "tie_word_embeddings": False,
    }
    alone = weights(whole, f"{name}ForCausalLM")
    assert not alone.towers
    assert not any(part.startswith("vision") for part in alone.missing)
    assert weights(whole, f"{name}ForConditionalGeneration").towers
