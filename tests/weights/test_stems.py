"""Whose layers are the language model's, where files hold several models: those that match the config, by whatever name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from weights.checkpoints import ALL, LAYER, LLAMA, Shape, llama, single, without

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.sources.checkpoints.weighing import weigh
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model


def weighed(folder: Path) -> Model:
    return weigh(load_model(str(folder)))


def believed(model: Model, elements: int) -> None:
    assert model.weights is not None
    assert (model.weights.basis, model.weights.bytes, model.weights.exact) == ("headers", 2 * elements, True)
    assert not any("weights are" in note or "contradict" in note for note in model.notes)


def other(stem: str, layers: int = 8) -> dict[str, Shape]:
    """A second model with names of the first and shapes of its own, 96 wide: 4 x 9,216 elements a layer."""
    found: dict[str, Shape] = {}
    for number in range(layers):
        found |= {f"{stem}.{number}.self_attn.{name}_proj.weight": (96, 96) for name in "qkvo"}
    return found


OTHER = 8 * 4 * 96 * 96


@pytest.mark.parametrize("stem", ["transformer.encoder.layers", "cpmant.encoder.layers", "llm.model.layers", "transformer.h", "decoder.block", "layers"])  # fmt: skip
def test_layers_may_have_any_name(tmp_path, stem):
    believed(weighed(single(tmp_path, LLAMA, {k.replace("model.layers", stem): v for k, v in llama().items()})), ALL)


@pytest.mark.parametrize("stem", ["model.sam_model.blocks", "model.qwen2_model.model.model.layers", "talker.model.layers", "apm.layers", "perception.encoder.asr_encoder.layers", "mm_whisper_embeddings.whisper_encoder.transformer.layers"])  # fmt: skip
def test_a_second_model_s_layers_are_a_tower_s(tmp_path, stem):
    model = weighed(single(tmp_path, LLAMA, {**llama(), **other(stem)}))
    believed(model, ALL + OTHER)
    assert sum(weight.parameters for weight in model.weights.towers) == 2 * OTHER  # bytes that no weight is known for
    lost = weighed(single(tmp_path, LLAMA, {**without(llama(), "layers.2."), **other(stem)}))
    assert any("no file has layer 2;" in note for note in lost.notes)


def test_a_second_model_s_ends_stand_by_its_layers(tmp_path):
    """Its embedding and head are no other shapes of the language model's."""
    ends: dict[str, Shape] = {"talker.model.embed_tokens.weight": (33, 96), "talker.lm_head.weight": (33, 96)}
    model = weighed(single(tmp_path, LLAMA, {**llama(), **other("talker.model.layers"), **ends}))
    believed(model, ALL + OTHER + 2 * 33 * 96)


def test_an_encoder_s_layers_are_no_decoder_s(tmp_path):
    both = {
        **{k.replace("model.layers", "model.decoder.layers"): v for k, v in llama().items()},
        **{k.replace("model.", "model.encoder."): v for k, v in llama().items() if "layers" in k},
    }
    believed(weighed(single(tmp_path, LLAMA, both)), ALL + 4 * LAYER)
    lost = weighed(single(tmp_path, LLAMA, without(both, "decoder.layers.1.")))
    assert any("no file has layer 1;" in note for note in lost.notes)


@pytest.mark.parametrize("name", ["decoder.bias", "model.bias", "bias"])
def test_a_bias_of_nothing_is_a_tensor_like_others(tmp_path, name):
    believed(weighed(single(tmp_path, LLAMA, {**llama(), name: (256,)})), ALL + 256)


def test_prediction_layers_that_no_file_has_are_no_drafts(tmp_path):
    model = weighed(single(tmp_path, {**LLAMA, "num_nextn_predict_layers": 1}, llama()))
    believed(model, ALL)
    assert not model.weights.draft


def test_ends_by_short_names_are_told_apart(tmp_path):
    """DeepSeek-V4's embed and head: a checkpoint that has lost either is told which."""
    names = {"model.embed_tokens.weight": "embed.weight", "lm_head.weight": "head.weight"}
    short = {names.get(name, name): shape for name, shape in llama().items()}
    believed(weighed(single(tmp_path, LLAMA, short)), ALL)
    no_table = weighed(single(tmp_path, LLAMA, without(short, "embed.weight")))
    assert any("no file has model.embed_tokens;" in note for note in no_table.notes)
    no_head = weighed(single(tmp_path, LLAMA, without(short, "head.weight")))
    assert any("have no lm_head" in note for note in no_head.notes)


def test_what_one_layer_has_too_many_of_stands_for_nothing_in_another(tmp_path):
    """A table of integers in layer 0 is no k_proj of layer 2; a matrix of another name in layer 2 may be."""
    table: dict[str, Shape] = {"model.layers.0.mlp.tid2eid": (256, 64)}
    lost = without(llama(), "2.self_attn.k_proj")
    model = weighed(single(tmp_path, LLAMA, {**lost, **table}))
    assert any("no file has self_attn.k_proj in layer 2;" in note for note in model.notes)
    found = weighed(single(tmp_path, LLAMA, {**lost, "model.layers.2.self_attn.to_k.weight": (32, 64), "bias": (1,)}))
    believed(found, ALL + 1)


def test_towers_that_no_file_has_are_said_to_be_missing(tmp_path):
    whisper = {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 64, "decoder_layers": 2,
        "encoder_layers": 2, "decoder_attention_heads": 4, "encoder_attention_heads": 4, "decoder_ffn_dim": 128, "encoder_ffn_dim": 128,
        "vocab_size": 256, "num_mel_bins": 80, "max_source_positions": 100, "max_target_positions": 50, "torch_dtype": "float16",
    }  # fmt: skip
    held: dict[str, Shape] = {
        "model.decoder.embed_tokens.weight": (256, 64),
        "model.decoder.embed_positions.weight": (50, 64),
    }
    for number in range(2):
        inside = f"model.decoder.layers.{number}."
        for attention in ("self_attn", "encoder_attn"):
            held |= {f"{inside}{attention}.{name}_proj.weight": (64, 64) for name in ("q", "k", "v", "out")}
        held |= {f"{inside}fc1.weight": (128, 64), f"{inside}fc2.weight": (64, 128)}
    model = weighed(single(tmp_path, whisper, held))
    assert any("no file has the towers for images, sound or an encoder" in note for note in model.notes)


def test_drafts_that_no_file_has_are_told_to_who_asks_for_them():
    """DeepSeek-V3 saved by transformers 5 has the config's num_nextn_predict_layers and no layer for it."""
    model = load_model("deepseek-v3")
    assert model.weights is not None
    assert model.weights.draft
    files = replace(model, weights=replace(model.weights, files=1, draft=()))
    for asked, tokens, told in ((files, 2, True), (files, 0, False), (model, 2, False)):
        options = Options(speculative_tokens=tokens)
        said = Vllm().start(Setup(asked, load_gpu("h200"), Parallel(tp=8), None, options, 4096)).cautions()
        assert any("no file of" in each and "--draft" in each for each in said) == told
