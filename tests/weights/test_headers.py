"""Headers of files that the real libraries wrote (tests/oracles/header_files.py), and of files that lie."""

from __future__ import annotations

import json
import math
import shutil
import struct
from pathlib import Path

import pytest
from fullest import fullest

from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.errors import BadFile, Unsupported
from kvplan.families import read
from kvplan.sources.checkpoints import gguf, safetensors
from kvplan.sources.checkpoints.headers import folder_headers, gguf_headers
from kvplan.sources.checkpoints.measured import measured
from kvplan.sources.checkpoints.places import places

DATA = Path(__file__).parents[1] / "data" / "headers"
LLAMA_LAYER = 32 * 32 + 2 * 16 * 32 + 32 * 32 + 3 * 48 * 32 + 2 * 32
"""q, k and v, o, MLP, two norms of a layer of 32 with 4 heads of 8, 2 KV heads and an MLP of 48."""


def model(folder: str):
    return read(json.loads((DATA / folder / "config.json").read_text()), Origin(folder, folder))


def entry(dtype="BF16", shape=(2, 3), place=(0, 12)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(place)}


def written(path: Path, tensors: dict, data: int, claim: int | None = None) -> Path:
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header) if claim is None else claim) + header + bytes(data))
    return path


def test_shards_are_added_up_through_the_index():
    found = folder_headers(DATA / "sharded")
    assert found.files == 5
    assert found.bytes == 2 * (2 * LLAMA_LAYER + 2 * 100 * 32 + 32)
    assert {tensor.dtype for tensor in found.tensors} == {"BF16"}
    assert found.read < 10_000  # headers and the index, not the 40 kB of data


def test_a_tied_head_is_stored_once():
    assert folder_headers(DATA / "tied").bytes == 2 * (2 * LLAMA_LAYER + 100 * 32 + 32)


@pytest.mark.parametrize("folder", ["sharded", "tied", "mixtral"])
def test_formula_and_headers_agree_on_every_rank(folder):
    formula = model(folder).weights
    found = folder_headers(DATA / folder)
    weights = measured(places(formula, found))
    assert weights.bytes == found.bytes == formula.bytes == weights.formula_bytes
    assert weights.total == formula.total
    for parallel in (Parallel(tp=2), Parallel(pp=2), Parallel(tp=2, pp=2)):
        assert fullest(weights, parallel) == fullest(formula, parallel)
    assert weights.found_by == f"headers of {found.files} file{'s' * (found.files > 1)}"


def test_measured_bytes_win_over_the_formula(tmp_path):
    folder = shutil.copytree(DATA / "tied", tmp_path / "m")
    tensors = {f"model.layers.{layer}.self_attn.q_proj.weight_scale": entry("F32", (32, 1), (0, 128)) for layer in (0,)}
    written(folder / "extra.safetensors", tensors, 128)
    formula = model("tied").weights
    weights = measured(places(formula, folder_headers(folder)))
    assert weights.bytes == formula.bytes + 128
    assert weights.formula_bytes == formula.bytes
    assert fullest(weights, Parallel(tp=2)) == fullest(formula, Parallel(tp=2)) + 64


def test_gguf_by_the_real_library():
    found = gguf_headers(DATA / "q4.gguf")
    sizes = {tensor.name: tensor.bytes for tensor in found.tensors}
    assert sizes["blk.0.attn_q.weight"] == 256 * 256 // 256 * 144  # Q4_K: 144 bytes for 256 elements
    assert sizes["blk.0.attn_v.weight"] == 128 * 256 // 256 * 210  # Q6_K: 210
    assert sizes["blk.0.ffn_up.weight"] == 256 * 256 // 32 * 34  # Q8_0: 34 for 32
    assert sizes["output_norm.weight"] == 256 * 4
    assert found.metadata["llama.embedding_length"] == 256
    assert found.metadata["general.architecture"] == "llama"
    assert found.read < 5_000


def test_gguf_in_parts_is_the_same_checkpoint():
    parts = gguf_headers(DATA / "split-00001-of-00003.gguf")
    assert parts.files == 3
    assert sorted(parts.tensors, key=str) == sorted(gguf_headers(DATA / "q4.gguf").tensors, key=str)


def test_a_missing_part_or_shard_is_named(tmp_path):
    shutil.copy(DATA / "split-00001-of-00003.gguf", tmp_path)
    with pytest.raises(BadFile, match="2 of 3 parts"):
        gguf_headers(tmp_path / "split-00001-of-00003.gguf")
    folder = shutil.copytree(DATA / "sharded", tmp_path / "m")
    (folder / "model-00002-of-00005.safetensors").unlink()
    with pytest.raises(BadFile, match="1 of 5 files"):
        folder_headers(folder)


@pytest.mark.parametrize("keep", [0, 5, 8, 200, 39_000])
def test_truncated_safetensors(tmp_path, keep):
    whole = (DATA / "tied" / "model.safetensors").read_bytes()
    path = tmp_path / "cut.safetensors"
    path.write_bytes(whole[:keep])
    with pytest.raises(BadFile, match=r"cut short"):
        safetensors.read_file(path)


@pytest.mark.parametrize("keep", [3, 10, 24, 60, 900, 50_000])
def test_truncated_gguf(tmp_path, keep):
    path = tmp_path / "cut.gguf"
    path.write_bytes((DATA / "q4.gguf").read_bytes()[:keep])
    with pytest.raises(BadFile, match=r"cut short|not a GGUF"):
        gguf.read_file(path)


@pytest.mark.parametrize("claim", [2**60, 2**64 - 1, 10**9, 0])
def test_a_lying_length_is_not_believed(tmp_path, claim):
    with pytest.raises(BadFile) as caught:
        safetensors.read_file(written(tmp_path / "lie.safetensors", {"w": entry()}, 12, claim))
    assert f"claims {claim:,} bytes" in caught.value.problem.cause


@pytest.mark.parametrize(
    ("tensors", "data", "cause"),
    [
        ({"w": entry(shape=(2**40, 2**40))}, 12, "needs"),
        ({"w": entry(dtype="BF17")}, 12, "dtype"),
        ({"w": entry(place=(12, 0))}, 12, "needs"),
        ({"w": entry(shape=(-2, -3))}, 12, "whole numbers"),
        ({"a": entry(), "b": entry()}, 24, "share"),
        ({"a": entry(), "b": entry(place=(12, 24))}, 20, "has 20"),
        ({"a": entry(), "b": entry(place=(20, 32))}, 32, "8 bytes belong to no tensor"),
        ({"w": entry()}, 20, "8 bytes after its last tensor"),
        ({"w": [1, 2]}, 12, "object"),
    ],
)
def test_a_header_that_contradicts_itself(tmp_path, tensors, data, cause):
    with pytest.raises(BadFile) as caught:
        safetensors.read_file(written(tmp_path / "odd.safetensors", tensors, data))
    assert cause in f"{caught.value} {caught.value.problem.cause}"


@pytest.mark.parametrize("place", [8, 16, 24])
def test_gguf_counts_are_not_believed(tmp_path, place):
    raw = bytearray((DATA / "q4.gguf").read_bytes())
    raw[place : place + 8] = struct.pack("<Q", 2**60)  # tensors, metadata pairs, the first key's length
    path = tmp_path / "lie.gguf"
    path.write_bytes(raw)
    with pytest.raises(BadFile):
        gguf.read_file(path)


def test_an_unknown_gguf_version_is_refused(tmp_path):
    path = tmp_path / "old.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 99, 0, 0))
    with pytest.raises(Unsupported, match="version 99"):
        gguf.read_file(path)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/b.safetensors"])
def test_an_index_leads_nowhere_else(tmp_path, name):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(BadFile, match="leads out"):
        folder_headers(tmp_path)


def test_mistral_s_second_copy_counts_once(tmp_path):
    written(tmp_path / "model.safetensors", {"w": entry()}, 12)
    written(tmp_path / "consolidated.safetensors", {"w": entry()}, 12)
    assert folder_headers(tmp_path).bytes == 12


def test_a_folder_without_weights_has_no_headers(tmp_path):
    assert folder_headers(tmp_path) is None


def test_blocks_of_scales_stay_known_where_files_give_the_bytes(tmp_path):
    """Projections in fp8 whose scales stand for 16 x 16: ranks may still cut between blocks only."""
    folder = shutil.copytree(DATA / "tied", tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    (folder / "config.json").write_text(json.dumps(config))
    file = next(folder.glob("*.safetensors"))
    filed, end = {}, 0
    size = struct.unpack("<Q", file.read_bytes()[:8])[0]
    for name, tensor in json.loads(file.read_bytes()[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        dtype = "F8_E4M3" if "_proj." in name else "BF16"
        length = math.prod(tensor["shape"]) * (1 if dtype == "F8_E4M3" else 2)
        filed[name] = entry(dtype, tuple(tensor["shape"]), (end, end + length))
        end += length
    written(file, filed, end)
    formula = read(config, Origin("tied", "a test")).weights
    weights = measured(places(formula, folder_headers(folder)))
    blocks = {weight.name: (weight.stored.group_rows, weight.stored.group) for weight in weights.layers[0]}
    assert blocks["self_attn.q_proj"] == blocks["mlp.down_proj"] == (16, 16)
    assert weights.bytes == end
