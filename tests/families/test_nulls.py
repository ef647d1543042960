"""Nulls that a configuration class doesn't take: vLLM 0.33 said `expected int, got NoneType` of each, or started."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.traits import NULLED, stated
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import NotServed
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
def test_a_null_that_the_class_does_not_take(name, field):
    assert stated(changed(name, **{field: None}).traits, NULLED) == field


def test_releases_with_transformers_5_refuse_it_and_the_formula_does_not():
    model = changed("llama-3.1-8b", tie_word_embeddings=None)
    for version, refused in (((0, 23, 0), False), ((0, 24, 0), True)):
        own = Vllm(version)
        setup = Setup(model, None, Parallel(), own.kv_format(model, None, None), Options(), 8192)
        if refused:
            with pytest.raises(NotServed, match="can't read the config") as caught:
                own.start(setup)
            assert "tie_word_embeddings is null" in (caught.value.problem.cause or "")
        else:
            own.start(setup)


def test_one_of_the_whole_or_of_its_part():
    whole = dict(bundled_document("gemma-3-27b").config)
    assert (
        stated(read({**whole, "tie_word_embeddings": None}, Origin("test", "test")).traits, NULLED) is None
    )  # bool | None = True
    part = {**whole, "text_config": {**whole["text_config"], "vocab_size": None}}
    assert stated(read(part, Origin("test", "test")).traits, NULLED) == "text_config.vocab_size"


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
    assert stated(changed(name, **{field: None}).traits, NULLED) is None


def test_a_checkpoint_s_own_code_may_take_any():
    own = {"auto_map": {"AutoConfig": "configuration_own.Config"}}
    assert stated(changed("llama-3.1-8b", tie_word_embeddings=None, **own).traits, NULLED) is None


def test_a_zero_that_engines_take_for_null():
    """Code World Model's class has windows of whole numbers: vLLM 0.33 writes None for 0, and is refused."""
    config = {"model_type": "cwm", "num_hidden_layers": 64, "sliding_window": 0}
    assert stated(read(config, Origin("test", "test")).traits, NULLED) == "sliding_window"
