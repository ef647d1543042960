"""Nulls that a configuration class doesn't take: vLLM 0.33 said `expected int, got NoneType` of each, or started."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField
from kvplan.families import read
from kvplan.sources.bundled import bundled_document


def changed(name: str, **fields: Any) -> Model:
    return read({**bundled_document(name).config, **fields}, Origin("test", "test"))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("llama-3.1-8b", "tie_word_embeddings"), ("mistral-7b-v0.3", "max_position_embeddings"), ("llama-3.1-8b", "vocab_size"),
        ("gemma-7b", "head_dim"),
    ],
)  # fmt: skip
def test_a_null_that_is_refused(name, field):
    with pytest.raises(BadField, match=field) as caught:
        changed(name, **{field: None})
    assert "null" in (caught.value.problem.cause or "")


def test_one_of_the_whole_or_of_its_part():
    whole = dict(bundled_document("gemma-3-27b").config)
    assert read({**whole, "tie_word_embeddings": None}, Origin("test", "test")).layers  # bool | None = True
    with pytest.raises(BadField, match=r"text_config\.vocab_size"):
        read({**whole, "text_config": {**whole["text_config"], "vocab_size": None}}, Origin("test", "test"))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("mistral-7b-v0.3", "sliding_window"),
        ("gpt-oss-20b", "sliding_window"),
        ("llama-3.1-8b", "head_dim"),
        ("qwen3-8b", "num_key_value_heads"),
    ],
)
def test_one_that_is_taken(name, field):
    assert changed(name, **{field: None}).layers


def test_a_checkpoint_s_own_code_may_take_any():
    own = {"auto_map": {"AutoConfig": "configuration_own.Config"}}
    assert changed("llama-3.1-8b", tie_word_embeddings=None, **own).layers


def test_a_zero_that_engines_take_for_null():
    """Code World Model's class has windows of whole numbers: vLLM 0.33 writes None for 0, and is refused."""
    with pytest.raises(BadField, match="sliding_window is 0"):
        read({"model_type": "cwm", "num_hidden_layers": 64, "sliding_window": 0}, Origin("test", "test"))
