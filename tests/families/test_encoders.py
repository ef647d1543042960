"""Configs of encoders: refused by the whole's type wherever the dimensions stand, as vLLM plans no cache for them."""

from __future__ import annotations

import pytest

from kvplan.arch.model import Origin
from kvplan.errors import Unsupported
from kvplan.families import read

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
ENCODERS = (
    "bert", "roberta", "deberta-v2", "albert", "electra", "esm", "modernbert", "nomic_bert", "gte", "new", "jina_bert", "layoutlmv3",
    "hubert", "wav2vec2", "wav2vec2-bert", "vit", "dinov2", "donut-swin", "clip", "siglip", "siglip2", "chinese_clip", "altclip", "align",
    "clipseg", "metaclip_2", "owlvit", "clap", "flava", "groupvit", "xclip",
)  # fmt: skip


@pytest.mark.parametrize("model_type", ENCODERS)
@pytest.mark.parametrize("nested", [False, True])
def test_encoders_are_refused(model_type: str, nested: bool) -> None:
    sizes = {"text_config": {**SIZES, "model_type": f"{model_type}_text_model"}} if nested else SIZES
    with pytest.raises(Unsupported, match=f"^{model_type} is an encoder"):
        read({"model_type": model_type, **sizes}, Origin("test", "test"))


@pytest.mark.parametrize("model_type", ["clip_text_model", "siglip_text_model", "altclip_text_model"])
def test_a_text_tower_alone_is_refused(model_type: str) -> None:
    with pytest.raises(Unsupported, match="is an encoder"):
        read({"model_type": model_type, **SIZES}, Origin("test", "test"))


@pytest.mark.parametrize("model_type", ["llava", "kosmos-2", "paligemma", "qwen2_vl", "idefics3"])
def test_decoders_beside_an_encoder_are_not(model_type: str) -> None:
    config = {
        "model_type": model_type,
        "text_config": {"model_type": "llama", **SIZES},
        "vision_config": {"model_type": "clip_vision_model"},
    }
    assert len(read(config, Origin("test", "test")).layers) == 2


def test_a_decoder_that_attends_to_an_image_is_no_encoder() -> None:
    """BLIP's BlipForConditionalGeneration generates with a cache: 36,864 bytes a token, and 577 image tokens in each layer."""
    sizes = {"text_config": {**SIZES, "model_type": "blip_text_model"}}
    with pytest.raises(Unsupported, match="cross-attention to image tokens") as refused:
        read(
            {"model_type": "blip", "vision_config": {"model_type": "blip_vision_model"}, **sizes},
            Origin("test", "test"),
        )
    assert "encoder:" not in str(refused.value)
