"""Nulls that a configuration class doesn't take: vLLM 0.33 said `expected int, got NoneType` of each, or started."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.traits import NULLED, stated
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import NotServed, Unsupported
from kvplan.families import read
from kvplan.sources.bundled import bundled_document


def changed(name: str, **fields: Any) -> Model:
    return read({**bundled_document(name).config, **fields}, Origin("test", "test"))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("llama-3.1-8b", "tie_word_embeddings"), ("mistral-7b-v0.3", "max_position_embeddings"), ("llama-3.1-8b", "vocab_size"),
        ("gemma-7b", "head_dim"), ("llama-3.1-8b", "rms_norm_eps"), ("llama-3.1-8b", "rope_theta"), ("qwen3-8b", "attention_dropout"),
        ("qwen3-30b-a3b", "hidden_act"), ("gemma-3-1b", "hidden_activation"), ("deepseek-v3", "initializer_range"),
        ("phi-4-mini", "use_cache"), ("gemma-3-1b", "rope_theta"),
    ],
)  # fmt: skip
def test_a_null_that_the_class_does_not_take(name, field):
    assert stated(changed(name, **{field: None}).traits, NULLED) == field


def start(model: Model) -> None:
    own = Vllm((0, 33, 0))
    own.start(Setup(model, None, Parallel(), own.kv_format(model, None, None), Options(), 8192))


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


def test_a_base_that_stands_in_the_rotation():
    scaling = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    assert stated(changed("qwen3-8b", rope_theta=None, rope_scaling=scaling).traits, NULLED) is None


def test_a_checkpoint_s_own_code_isn_t_read_for_a_type_that_has_a_class():
    """vLLM 0.33 said expected bool, got NoneType: it reads the code with --trust-remote-code alone."""
    own = {"auto_map": {"AutoConfig": "configuration_own.Config"}}
    model = changed("llama-3.1-8b", tie_word_embeddings=None, **own)
    with pytest.raises(Unsupported, match="can't read the config") as caught:
        start(model)
    assert type(caught.value) is Unsupported
    assert "--trust-remote-code" in (caught.value.problem.cause or "")
    with pytest.raises(NotServed):
        start(
            changed("llama-3.1-8b", rms_norm_eps=None, auto_map={"AutoModelForCausalLM": "modeling_own.M"})
        )  # a model's, not a config's


def test_code_for_a_type_without_a_class_may_take_any():
    own = {"auto_map": {"AutoConfig": "configuration_own.Config"}, "model_type": "own"}
    assert stated(changed("llama-3.1-8b", tie_word_embeddings=None, **own).traits, NULLED) is None


def test_a_zero_that_engines_take_for_null():
    """Code World Model's class has windows of whole numbers: vLLM 0.33 writes None for 0, and is refused."""
    config = {"model_type": "cwm", "num_hidden_layers": 64, "sliding_window": 0}
    assert stated(read(config, Origin("test", "test")).traits, NULLED) == "sliding_window"
