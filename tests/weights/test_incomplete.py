"""Checkpoints that lack files, layers, modules or experts are not believed, and the note says what they lack."""

from __future__ import annotations

from pathlib import Path

import pytest
from weights.checkpoints import (
    ALL,
    LLAMA,
    MOE,
    MOE_ALL,
    checkpoint,
    filed,
    index,
    llama,
    moe,
    shards,
    single,
    without,
)

from kvplan.arch.model import Model
from kvplan.sources.checkpoints.weighing import weigh
from kvplan.sources.models import load_model


def weighed(folder: Path) -> Model:
    return weigh(load_model(str(folder)))


def note(model: Model, size: int) -> str:
    """The one note of a model whose files weren't believed: its bytes are the config's."""
    assert model.weights is not None
    assert (model.weights.basis, model.weights.bytes) == ("config", size)
    (said,) = (note for note in model.notes if note.startswith("weights are those of the config's formula: "))
    return said


def believed(model: Model, size: int) -> None:
    assert model.weights is not None
    assert (model.weights.basis, model.weights.bytes) == ("headers", size)
    assert model.weights.exact
    assert not any("weights are" in note for note in model.notes)


@pytest.mark.parametrize(
    ("named", "gone", "said"),
    [
        ("model-{:05d}-of-{:05d}.safetensors", 2, "there is no model-00002-of-00003.safetensors"),
        ("model-{:05d}-of-{:05d}.safetensors", 3, "there is no model-00003-of-00003.safetensors"),
        ("model-{}-of-{}.safetensors", 1, "there is no model-1-of-3.safetensors"),
        ("model-{:05d}-of-{:06d}.safetensors", 2, "there is no model-00002-of-000003.safetensors"),
    ],
)
def test_a_shard_that_is_missing_is_named_without_an_index(tmp_path, named, gone, said):
    files = shards(llama(), 3, named)
    del files[named.format(gone, 3)]
    found = note(weighed(checkpoint(tmp_path, LLAMA, files)), 2 * ALL)
    assert "1 of 3 files" in found
    assert said in found
    assert "download" in found


def test_all_shards_without_an_index_are_the_checkpoint(tmp_path):
    believed(weighed(checkpoint(tmp_path, LLAMA, shards(llama(), 3))), 2 * ALL)


def test_shards_may_be_numbered_from_zero(tmp_path):
    """As gpt-oss's are: 00000, 00001 and 00002 of 00002."""
    files = dict(zip((f"model-{at:05d}-of-00002.safetensors" for at in range(3)), shards(llama(), 3).values(), strict=True))  # fmt: skip
    believed(weighed(checkpoint(tmp_path, LLAMA, files)), 2 * ALL)
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    assert "there is no model-00001-of-00002" in note(weighed(tmp_path), 2 * ALL)


def test_a_tensor_that_only_the_index_has_is_named(tmp_path):
    files = shards(llama(), 2)
    folder = checkpoint(tmp_path, LLAMA, {name: without(held, "2.mlp.down_proj") for name, held in files.items()})
    index(folder, files)
    found = note(weighed(folder), 2 * ALL)
    assert "model.layers.2.mlp.down_proj.weight" in found
    assert "index" in found


def test_an_index_may_name_a_head_that_is_the_embedding(tmp_path):
    tied = {**LLAMA, "tie_word_embeddings": True}
    files = shards(llama(), 2)
    folder = checkpoint(tmp_path, tied, {name: without(held, "lm_head") for name, held in files.items()})
    index(folder, files)
    believed(weighed(folder), 2 * (ALL - 256 * 64))


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (("k_proj",), "self_attn.k_proj in all 4 layers"),
        (("2.self_attn.k_proj",), "self_attn.k_proj in layer 2"),
        (("0.mlp.up_proj", "3.mlp.up_proj"), "mlp.up_proj in layers 0 and 3"),
        (("layers.2.", "layers.3."), "layers 2 and 3"),
        (("layers.1.",), "layer 1"),
        (("embed_tokens",), "model.embed_tokens"),
        (("k_proj", "v_proj"), "self_attn.k_proj in all 4 layers and self_attn.v_proj in all 4 layers"),
        (("lm_head",), "no lm_head"),
    ],
)
def test_modules_that_no_file_has_are_named(tmp_path, gone, said):
    found = note(weighed(single(tmp_path, LLAMA, without(llama(), *gone))), 2 * ALL)
    assert said in found
    assert "config.json" in found or "tie_word_embeddings" in found


@pytest.mark.parametrize(
    ("experts", "said"),
    [([0], "7 of 8 experts in all 4 layers"), (range(4), "4 of 8 experts in all 4 layers"), (range(7), "1 of 8 experts")],
)  # fmt: skip
def test_experts_that_no_file_has_are_counted(tmp_path, experts, said):
    assert said in note(weighed(single(tmp_path, MOE, moe(experts))), 2 * MOE_ALL)


def test_an_expert_of_one_layer_is_missed(tmp_path):
    found = note(weighed(single(tmp_path, MOE, without(moe(), "layers.1.mlp.experts.5."))), 2 * MOE_ALL)
    assert "1 of 8 experts in layer 1" in found


def test_tensors_of_no_elements_are_refused_by_name(tmp_path):
    empty = single(tmp_path, LLAMA, dict.fromkeys(llama(), (0,)))
    assert "model.embed_tokens.weight has no elements" in note(weighed(empty), 2 * ALL)
    one = single(tmp_path, LLAMA, {**llama(), "model.layers.1.mlp.up_proj.weight": (0, 64)})
    assert "model.layers.1.mlp.up_proj.weight has no elements" in note(weighed(one), 2 * ALL)


def test_other_names_and_joined_projections_are_nothing_missing(tmp_path):
    """q, k and v as one W_pack of 128 rows, the MLP by names of its own, and a scale beside, so that bytes differ."""
    held = without(llama(), "self_attn", "mlp")
    for number in range(4):
        inside = f"model.layers.{number}."
        held |= {f"{inside}self_attn.W_pack.weight": (128, 64), f"{inside}self_attn.dense.weight": (64, 64)}
        held |= {f"{inside}mlp.dense_h_to_4h.weight": (384, 64), f"{inside}mlp.dense_4h_to_h.weight": (64, 192)}
        held[f"{inside}self_attn.k_scale"] = (1,)
    believed(weighed(single(tmp_path, LLAMA, held)), 2 * (ALL + 4))


def test_all_experts_in_one_tensor_are_nothing_missing(tmp_path):
    held = without(moe(), "experts")
    for number in range(4):
        inside = f"model.layers.{number}.mlp.experts."
        held |= {f"{inside}gate_up_proj": (8, 128, 256), f"{inside}down_proj": (8, 128, 128)}
    held["model.layers.0.self_attn.k_scale"] = (1,)
    believed(weighed(single(tmp_path, MOE, held)), 2 * (MOE_ALL + 1))


def test_packed_elements_are_nothing_missing(tmp_path):
    """Four bits in 32-bit words, as AutoGPTQ writes them, though the config says nothing of it."""
    plain = {name: shape for name, shape in llama().items() if "_proj" not in name}
    packed = {name.replace(".weight", ".qweight"): (shape[1] // 8, shape[0]) for name, shape in llama().items() if "_proj" in name}  # fmt: skip
    folder = checkpoint(tmp_path, LLAMA, {"plain.safetensors": plain})
    (folder / "packed.safetensors").write_bytes(filed(packed, "I32", 4))
    inside = 4 * (LAYER_MATRICES // 2)
    believed(weighed(folder), 2 * (ALL - 4 * LAYER_MATRICES) + inside)
    del packed["model.layers.3.self_attn.k_proj.qweight"]
    (folder / "packed.safetensors").write_bytes(filed(packed, "I32", 4))
    assert "self_attn.k_proj in layer 3" in note(weighed(folder), 2 * ALL)


LAYER_MATRICES = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 192 * 64
