"""The bundled models as they were compiled are the bundled models as they are read."""

from __future__ import annotations

from kvplan.sources import compiled
from kvplan.sources.models import load_model, model_names


def test_compiled_models_are_up_to_date():
    again = "configs or their reading changed: python -m kvplan.sources.compiled"
    known = compiled.models()
    assert list(known) == list(model_names()), again
    for name in model_names():
        assert known[name] == load_model(name, offline=True), f"{name}: {again}"


def test_equal_layers_are_one_object():
    weights = compiled.models()["llama-3-70b"].weights
    assert weights is not None
    assert len({id(layer) for layer in weights.layers}) == 1
