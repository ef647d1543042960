"""Older spellings of the core fields: believed for the classes that read them, as transformers builds and vLLM plans them."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.errors import MissingField
from kvplan.families import read

OLD = {"n_layer": 4, "n_head": 8, "n_embd": 512, "vocab_size": 100, "intermediate_size": 1024}
STANDARD = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "hidden_size": 512,
    "vocab_size": 100,
    "intermediate_size": 1024,
}


def model(config: dict[str, Any]) -> Model:
    return read(config, Origin("test", "test"))


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gemma2", "phi3", "gpt_oss", "qwen3_moe"])
def test_a_class_that_doesn_t_read_them_builds_its_own_default(model_type: str) -> None:
    with pytest.raises(MissingField) as caught:
        model({"model_type": model_type, **OLD})
    assert caught.value.field == "num_hidden_layers"
    assert "n_layer" in (caught.value.problem.cause or "")


@pytest.mark.parametrize(("standard", "old"), [("num_attention_heads", "n_head"), ("hidden_size", "n_embd")])
def test_each_is_named(standard: str, old: str) -> None:
    config = {"model_type": "llama", **STANDARD, old: STANDARD[standard]}
    del config[standard]
    with pytest.raises(MissingField, match=standard):
        model(config)


@pytest.mark.parametrize("model_type", ["gpt2", "gptj", "codegen", "gpt_bigcode"])
def test_a_class_that_reads_them_is_believed(model_type: str) -> None:
    assert len(model({"model_type": model_type, **OLD}).layers) == 4
    assert len(model({"model_type": model_type, **STANDARD}).layers) == 4


def test_a_type_that_no_class_knows_is_believed() -> None:
    assert len(model({"model_type": "unheard_of", **OLD}).layers) == 4


def test_a_nested_one_has_its_class_s_own_and_says_so() -> None:
    """vLLM 0.33 planned Qwen3-Omni-MoE so named with 28 layers, 4 KV heads of 128: its text class's defaults."""
    found = model(
        {
            "model_type": "qwen3_omni_moe_thinker",
            "text_config": {"model_type": "qwen3_omni_moe_text", "head_dim": 128, **OLD},
        }
    )
    assert len(found.layers) == 28
    assert {"text_config.num_hidden_layers", "text_config.hidden_size"} <= {entry.field for entry in found.defaulted}
    assert any("n_layer" in note and "ignored" in note for note in found.notes)


def test_beside_the_standard_name_they_are_ignored_aloud() -> None:
    found = model({"model_type": "llama", **STANDARD, "n_layer": 2})
    assert len(found.layers) == 4
    assert any("n_layer = 2 is ignored" in note for note in found.notes)


def test_cache_and_weights_believe_the_same_spelling():
    """Of two widths that a config states by old names alone, both take the same one."""
    found = model({"model_type": "unheard_of", **OLD, "n_embd": None, "n_embed": 256, "model_dim": 512})
    assert found.weights is not None
    assert found.hidden_size == found.weights.first[0].shape[1] == 512
