"""Files whose shapes contradict the config: their bytes stand, the counts are said not to; layers beyond the config's are weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from fullest import fullest
from weights.checkpoints import ALL, LAYER, LLAMA, TABLE, llama, single

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.report.assemble.common import model_info
from kvplan.sources.checkpoints.weighing import weigh
from kvplan.sources.models import load_model


def weighed(folder: Path) -> Model:
    return weigh(load_model(str(folder)))


def notes(model: Model) -> str:
    return " | ".join(model_info(model).notes)


@pytest.mark.parametrize(
    ("shapes", "elements", "said"),
    [
        (llama(inner=384), ALL + 4 * 3 * 192 * 64, "mlp.gate_proj of 384 x 64 where the config has 192 x 64"),
        (llama(inner=96), ALL - 4 * 3 * 96 * 64, "mlp.gate_proj of 96 x 64 where the config has 192 x 64"),
        (llama(vocabulary=512), ALL + 2 * TABLE, "model.embed_tokens of 512 x 64 where the config has 256 x 64"),
    ],
)
def test_other_shapes_are_said_to_contradict_the_config(tmp_path, shapes, elements, said):
    model = weighed(single(tmp_path, LLAMA, shapes))
    assert (model.weights.basis, model.weights.bytes, model.weights.exact) == ("headers", 2 * elements, False)
    assert said in notes(model)
    assert "lower bound" not in notes(model)
    assert model_info(model).parameters.exact is False


def test_the_same_shapes_contradict_nothing(tmp_path):
    model = weighed(single(tmp_path, LLAMA, {**llama(), "model.layers.0.self_attn.k_scale": (1,)}))
    assert model.weights.exact
    assert not notes(model)


def test_layers_beyond_the_config_s_are_weights_and_no_draft(tmp_path):
    model = weighed(single(tmp_path, LLAMA, llama(layers=8)))
    weights = model.weights
    assert (weights.basis, weights.bytes, weights.draft) == ("headers", 2 * (ALL + 4 * LAYER), ())
    assert (weights.total, weights.exact) == (ALL + 4 * LAYER, False)
    assert "layers 4 to 7" in notes(model)
    assert fullest(weights, Parallel(pp=2)) == 2 * (2 * LAYER + TABLE + 64 + 4 * LAYER)


def test_prediction_layers_stay_drafts(tmp_path):
    """By the config's word, or by modules that only prediction layers have."""
    told = weighed(single(tmp_path, {**LLAMA, "num_nextn_predict_layers": 1}, llama(layers=5)))
    own = {**llama(layers=5), "model.layers.4.eh_proj.weight": (64, 128), "model.layers.4.enorm.weight": (64,)}
    shown = weighed(single(tmp_path, LLAMA, own))
    for model in (told, shown):
        assert model.weights.bytes == 2 * ALL
        assert model.weights.draft
        assert model.weights.exact
