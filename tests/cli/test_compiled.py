"""The bundled models as they were compiled are the bundled models as they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan import api
from kvplan.errors import UsageError
from kvplan.sources import compiled
from kvplan.sources.models import load_document, load_model, model_names, model_of

AGAIN = "configs or their reading changed: python -m kvplan.sources.compiled"


def test_compiled_models_are_in_use():
    assert compiled.compiled("llama-3-70b") is not None, AGAIN


def test_compiled_models_are_what_reading_gives():
    known = compiled.compiled_models()
    if known is None:
        pytest.skip(AGAIN)
    assert list(known) == list(model_names()), AGAIN
    for name in model_names():
        read = model_of(load_document(name, offline=True))
        assert known[name] == read, f"{name}: {AGAIN}"
        assert compiled.compiled(name) == read


def test_equal_layers_are_one_object():
    weights = load_model("llama-3-70b").weights
    assert weights is not None
    assert len({id(layer) for layer in weights.layers}) == 1


def test_a_file_made_from_something_else_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "made_from", lambda: 1)
    compiled._index.cache_clear()
    try:
        assert compiled.compiled("llama-3-70b") is None
        assert load_model("llama-3-70b").family == "llama"
    finally:
        compiled._index.cache_clear()


def test_a_path_comes_before_a_bundled_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3-70b").write_text(
        '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}'
    )
    assert len(api.load_model("llama-3-70b").layers) == 2
    (tmp_path / "llama-3-70b").unlink()
    assert len(api.load_model("llama-3-70b").layers) == 80
    with pytest.raises(UsageError, match="--revision"):
        api.load_model("llama-3-70b", revision="main")
