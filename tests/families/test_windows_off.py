"""Windows and chunks that a config switches off, whatever it calls its layers, and switches that a class has or not."""

from __future__ import annotations

from collections import Counter

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.families import read
from kvplan.sources.bundled import bundled_document


def changed(name: str, **fields: object) -> Model:
    """A bundled model with fields of its config changed."""
    return read({**bundled_document(name).config, **fields}, Origin("a test", "a test"))


def kinds(model: Model) -> dict[tuple[str, int | None], int]:
    return dict(Counter((cache.kind, getattr(cache, "cap", None)) for layer in model.layers for cache in layer.caches))


@pytest.mark.parametrize(("name", "layers"), [("exaone-4.0-32b", 64), ("gpt-oss-20b", 24)])
def test_a_null_is_no_window(name, layers):
    """vLLM 0.33 models/exaone4.py and gpt_oss.py hand None on, and every layer keeps every token."""
    assert kinds(changed(name, sliding_window=None)) == {("full", None): layers}


@pytest.mark.parametrize(("name", "layers"), [("exaone-4.0-32b", 64), ("gpt-oss-20b", 24), ("gemma-3-1b", 26)])
def test_nor_is_a_zero(name, layers):
    """vLLM 0.33 config/model.py: if self.get_sliding_window() == 0, the text config's sliding_window is None."""
    assert kinds(changed(name, sliding_window=0)) == {("full", None): layers}


@pytest.mark.parametrize(
    ("switch", "kind"), [(False, ("full", None)), (None, ("full", None)), (True, ("sliding", 2048))]
)
def test_a_class_with_a_switch_goes_by_it(switch, kind):
    """transformers 5.23 models/qwen3: sliding_window if use_sliding_window else None."""
    fields = {} if switch is None else {"use_sliding_window": switch}
    model = changed("qwen3-8b", sliding_window=2048, layer_types=["sliding_attention"] * 36, **fields)
    assert kinds(model) == {kind: 36}


def test_a_class_without_a_switch_ignores_it():
    assert kinds(changed("olmo-3-7b", use_sliding_window=False)) == kinds(changed("olmo-3-7b"))
    assert ("sliding", 4096) in kinds(changed("olmo-3-7b"))


@pytest.mark.parametrize("name", ["glm-5", "deepseek-v3.2"])
def test_latents_of_a_class_without_windows_have_none(name):
    """vLLM 0.33 models/deepseek_v2.py doesn't look at layer_types: GLM-5 so plans 13,401 blocks on two H100, as without a list."""
    count = len(changed(name).layers)
    assert kinds(changed(name, sliding_window=1024, layer_types=["sliding_attention"] * count)) == kinds(changed(name))


@pytest.mark.parametrize("listed", [None, ["chunked_attention"] * 3 + ["full_attention"]])
def test_a_null_is_no_chunk(listed):
    """vLLM 0.33 plans 13,653 blocks for 48 full layers."""
    fields = {"model_type": "llama4_text", "attention_chunk_size": None, "num_hidden_layers": 4}
    model = read({**fields, "layer_types": listed}, Origin("a test", "a test"))
    assert kinds(model) == {("full", None): 4}


@pytest.mark.parametrize(
    ("said", "windows"),
    [
        ({"use_sliding_window": True}, 9),
        ({}, 0),
        ({"use_sliding_window": True, "layer_types": ["full_attention"] * 36}, 0),
    ],
)
def test_layers_that_rotate_nothing_have_the_window(said, windows):
    """models/smollm3: sliding where not no_rope_layers[i], every fourth of 36; vLLM 0.33 plans 27 full layers and 9 windows."""
    found = read(
        {"model_type": "smollm3", "num_hidden_layers": 36, "sliding_window": 512, **said}, Origin("a test", "a test")
    )
    assert kinds(found).get(("sliding", 512), 0) == windows
    assert kinds(found)[("full", None)] == 36 - windows
