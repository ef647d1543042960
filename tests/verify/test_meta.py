"""The same small models in transformers on the meta device: parameters and cache bytes agree."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")
pytest.importorskip("transformers", reason="needs transformers, the meta extra")

from cli.running import run
from verify import tiny

from kvplan import families
from kvplan.arch.model import Origin
from kvplan.errors import UsageError
from kvplan.verify.meta import against_transformers, rows_against

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
KINDS = (
    "gqa",
    "sliding",
    "sink logits and experts",
    "chunked",
    "mla",
    "sparse mla",
    "gated delta net",
    "shared",
    "attention beside mamba2",
)


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_agrees(kind):
    config = {**tiny.COMMON, **tiny.CONFIGS[kind]}
    rows = {row.what: row for row in rows_against(tiny.model(kind), config)}
    assert rows["parameters"].verdict == "confirmed", rows
    assert rows["cache after a prefill of 1,000 tokens"].verdict == "confirmed", rows


def test_the_command(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**tiny.COMMON, **tiny.CONFIGS["gqa"]}))
    result = run("verify", str(path), "--meta", "--json")
    assert result.code == 0
    assert result.document["verdict"] == "confirmed"
    assert {row["check"] for row in result.document["rows"]} == {"meta"}
    assert run("verify", "--meta").code == 2


def test_what_it_cannot_read(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text("kvplan: 1\nlayers: 2\nheads: 4\nkv_heads: 2\nhead_dim: 16\n")
    with pytest.raises(UsageError, match="kvplan description"):
        against_transformers(str(path))


def test_a_tower_is_counted_and_no_picture_is_looked_for():
    """Gemma 3's text model beside a vision tower: parameters of both, the cache of the text alone."""
    text = {
        **tiny.COMMON,
        "model_type": "gemma3_text",
        "layer_types": ["full_attention"] * 3,
        "tie_word_embeddings": True,
    }
    config = {
        "model_type": "gemma3", "torch_dtype": "bfloat16", "mm_tokens_per_image": 4, "text_config": text,
        "vision_config": {
            "model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 56, "patch_size": 14,
        },
    }  # fmt: skip
    model = families.read(config, Origin("tiny", "made for this test"))
    assert model.weights is not None
    assert model.weights.towers
    rows = {row.what: row for row in rows_against(model, config)}
    assert rows["parameters"].verdict == "confirmed", rows
    assert rows["cache after a prefill of 64 tokens"].measured == 64 * 3 * 2 * 2 * 16 * 2
