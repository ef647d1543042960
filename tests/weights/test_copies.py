"""Folders that hold more than one copy, or more than weights: what transformers and vLLM load is counted, once."""

from __future__ import annotations

import json
import struct

import pytest
from weights.checkpoints import ALL, LLAMA, checkpoint, filed, index, llama, shards, single

from kvplan.sources.checkpoints.headers import folder_headers
from kvplan.sources.checkpoints.weighing import weigh
from kvplan.sources.models import load_model


@pytest.mark.parametrize(
    "beside",
    [
        "model.fp32.safetensors", "model.fp16.safetensors", "model.fp32-00001-of-00002.safetensors", "model-00001-of-00002.safetensors",
        "consolidated.safetensors", "adapter_model.safetensors",
    ],
)  # fmt: skip
def test_a_second_copy_isn_t_counted(tmp_path, beside):
    folder = single(tmp_path, LLAMA, llama())
    (folder / beside).write_bytes(filed(llama(), "F32", 4))
    found = folder_headers(folder)
    assert (found.bytes, found.files) == (2 * ALL, 1)


@pytest.mark.parametrize("beside", ["optimizer.safetensors", "optimizer_0.safetensors", "training_state.safetensors", "scheduler.safetensors"])  # fmt: skip
def test_what_training_leaves_isn_t_counted(tmp_path, beside):
    folder = single(tmp_path, LLAMA, llama())
    (folder / beside).write_bytes(filed({"o": (100_000,)}, "F32", 4))
    assert folder_headers(folder).bytes == 2 * ALL


def test_an_index_says_which_files_count(tmp_path):
    files = shards(llama(), 2)
    folder = checkpoint(tmp_path, LLAMA, files)
    index(folder, files)
    (folder / "model.safetensors").write_bytes(filed(llama(), "F32", 4))
    assert folder_headers(folder).bytes == 2 * ALL


def test_other_files_of_weights_count_too(tmp_path):
    """vLLM reads every *.safetensors where there is no index."""
    folder = checkpoint(
        tmp_path, LLAMA, {"model.safetensors": llama(), "mtp.safetensors": {"mtp.fc.weight": (64, 128)}}
    )
    assert folder_headers(folder).bytes == 2 * (ALL + 64 * 128)


def test_the_same_tensors_under_another_file_name_count_once(tmp_path):
    folder = checkpoint(tmp_path, LLAMA, {"model.safetensors": llama(), "weights.safetensors": llama()})
    assert folder_headers(folder).bytes == 2 * ALL


def test_two_copies_of_which_none_is_the_model_are_not_chosen_from(tmp_path):
    folder = checkpoint(tmp_path, LLAMA, {"model.fp16.safetensors": llama()})
    (folder / "model.fp32.safetensors").write_bytes(filed(llama(), "F32", 4))
    model = weigh(load_model(str(folder)))
    assert model.weights.basis == "config"
    (note,) = (note for note in model.notes if "formula" in note)
    assert "model.fp16.safetensors" in note
    assert "model.fp32.safetensors" in note
    assert "keep one" in note


def test_gguf_files_of_unknown_types_leave_the_config_s_formula(tmp_path):
    """Type 99 is nothing that ggml has; 40 and 41 are NVFP4 (64 elements in 36 B) and Q1_0 (128 in 18 B)."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.gguf").write_bytes(gguf_of(99, 256))
    model = weigh(load_model(str(tmp_path)))
    assert (model.weights.basis, model.weights.bytes) == ("config", 2 * ALL)
    (note,) = (note for note in model.notes if "formula" in note)
    assert "ggml type 99" in note
    for kind, size in ((40, 144), (41, 36)):
        (tmp_path / "model.gguf").write_bytes(gguf_of(kind, 256))
        assert folder_headers(tmp_path).bytes == size


def gguf_of(kind: int, elements: int) -> bytes:
    """A GGUF file of one vector of this ggml type, and its data. Source: ggml/docs/gguf.md."""
    name = b"blk.0.attn_q.weight"
    start = b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, len(name)) + name + struct.pack("<IQIQ", 1, elements, kind, 0)
    return start.ljust(-(-len(start) // 32) * 32, bytes(1)) + bytes(elements * 4)
