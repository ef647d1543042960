"""Sizes that a description doesn't state are never counted as nothing: a wide range, and the fields that narrow it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvplan import FitQuestion, Options, Parallel, fit
from kvplan.api import load_model
from kvplan.arch.layers import Attention, Latent, Layer
from kvplan.arch.weights import Weight, Weights
from kvplan.engines.base import Setup
from kvplan.engines.registry import engine
from kvplan.engines.unstated import unstated
from kvplan.engines.vllm.blocks.built import as_served
from kvplan.engines.vllm.memory.dimensions import dimensions
from kvplan.engines.vllm.tables.changes import rules
from kvplan.errors import MissingField
from kvplan.sources.gpus import load_gpu
from kvplan.units import GIB

FIVE_LINES = "kvplan: 1\nname: m1\nlayers: 32\nkv_heads: 8\nhead_dim: 128\n"
LLAMA_3_8B = f"{FIVE_LINES}vocab_size: 128256\nhidden_size: 4096\nintermediate_size: 14336\nparameters: 8030261248\n"
WEIGHTS = 16_060_522_496


def described(folder: Path, text: str):
    path = folder / "m1.yaml"
    path.write_text(text)
    return load_model(str(path))


@pytest.fixture
def bare(tmp_path):
    return described(tmp_path, FIVE_LINES)


def activation(model, parallel=Parallel(), name="vllm"):  # noqa: B008
    return (
        engine(name)
        .start(Setup(model, load_gpu("h100"), parallel, None, Options(weights_per_gpu=WEIGHTS), 8192))
        .budget()
        .activation.bytes
    )


@pytest.mark.parametrize("name", ["vllm", "ideal"])
def test_a_range_holds_every_published_model(bare, name):
    found = activation(bare, name=name)
    for other in ("llama-3-8b", "gemma-3-27b", "deepseek-v3", "llama-3.1-405b", "nemotron-3-ultra-550b-a55b"):
        assert activation(load_model(other), name=name).high <= found.high
    assert found.low <= activation(load_model("llama-3.2-1b"), name=name).low
    assert found.low < found.likely < found.high


def test_fields_narrow_it_to_what_a_config_gives(tmp_path):
    assert activation(described(tmp_path, LLAMA_3_8B)) == activation(load_model("llama-3-8b"))
    assert unstated(described(tmp_path, LLAMA_3_8B)) == ()


def test_the_fields_to_add_are_named_and_the_ends_are_in_the_document(bare):
    found = fit(bare, "h100", FitQuestion(context=8192, weights=WEIGHTS))
    assert any("vocab_size, hidden_size, intermediate_size and parameters" in text for text in found.warnings)
    assert found.per_gpu.low.activation_bytes < GIB < 8 * GIB < found.per_gpu.high.activation_bytes
    sure = fit(bare, "h100", FitQuestion(context=8192, weights=WEIGHTS, options=Options(overhead=4 * GIB)))
    assert not any("hidden_size" in text for text in sure.warnings)


def test_ranks_of_a_bare_description_talk(bare):
    one, known = (fit(model, "h100", FitQuestion(8192, Parallel(tp=2), weights=WEIGHTS, batch=64)) for model in (bare, "llama-3-8b"))  # fmt: skip
    assert one.decode is not None
    assert known.decode is not None
    assert one.decode.communication_s >= known.decode.communication_s
    assert any("the size of messages between ranks is a guess" in text for text in one.warnings)
    assert not any("guess" in text for text in known.warnings)


def test_width_of_counted_parameters_is_between_a_gate_and_none(tmp_path):
    """160 M parameters a layer of 4096: 13,020 wide with three matrices, 19,531 with two."""
    text = f"{FIVE_LINES}vocab_size: 32000\nhidden_size: 4096\nparameters: {160_000_000 * 32}\n"
    low, likely, high = dimensions(described(tmp_path, text), Parallel(tp=2))
    assert (low.width, likely.width, high.width) == (0, 6510, 9766)


def test_the_largest_of_layers_whose_shapes_nobody_states_takes_the_most(bare):
    """Of 160 M and 80 M parameters the first: 13,020 wide beside 4,096 with three matrices; of experts likewise, whole."""
    dense = [(Weight("mlp", (size,), "mlp", linear=True),) for size in (80_000_000, 160_000_000)]
    found = dimensions(replace(bare, hidden_size=4096, weights=Weights((), tuple(dense), ())), Parallel()).likely
    assert found.width == 160_000_000 // (3 * 4096) == 13_020
    mixed = [
        (Weight("experts", (size,), "experts", copies=8, picked=2, linear=True),) for size in (80_000_000, 160_000_000)
    ]
    found = dimensions(replace(bare, hidden_size=4096, weights=Weights((), tuple(mixed), ())), Parallel()).likely
    assert found.experts.width == 13_020


def test_ranks_share_a_width_that_is_stated(tmp_path):
    text = f"{FIVE_LINES}vocab_size: 32000\nhidden_size: 4096\nintermediate_size: 14336\n"
    assert {ends.width for ends in dimensions(described(tmp_path, text), Parallel(tp=8))} == {14336 // 8}


def test_experts_of_a_description_take_rooms(tmp_path):
    """An expert of 3 x 7168 x 2048 parameters, 8 picked: two ranks have 1,024 of its width, 1,536 without a gate."""
    expert = 3 * 7168 * 2048
    total = 32 * (256 * expert + 10**8)
    text = (
        f"{FIVE_LINES}vocab_size: 129280\nhidden_size: 7168\nintermediate_size: 18432\n"
        f"parameters: {{total: {total}, active: {total - 32 * 248 * expert}, experts: 256, experts_per_token: 8}}\n"
    )
    low, likely, high = (ends.experts for ends in dimensions(described(tmp_path, text), Parallel(tp=2)))
    assert (low.width, likely.width, high.width) == (1024, 1024, 1536)
    assert {ends.picked for ends in (low, likely, high)} == {8}
    assert {ends.inputs for ends in (low, likely, high)} == {7168}


def test_experts_of_narrower_inputs_take_rooms():
    """Nemotron-3-Super's 22 experts of 2,688 work on latents of 1,024."""
    found = dimensions(load_model("nemotron-3-super-120b-a12b"), Parallel()).likely.experts
    assert (found.picked, found.width, found.inputs) == (22, 2688, 1024)


@pytest.mark.parametrize(("field", "key"), [("heads", "num_attention_heads"), ("nope_dim", "qk_nope_head_dim")])
def test_heads_that_a_latent_expands_to_must_be_stated(bare, field, key):
    layer = Layer((replace(Latent(40, 256, 32, 64, 64), **{field: None}),))
    model = replace(bare, layers=(layer,) * 4, architectures=("MiniCPM3ForCausalLM",))
    with pytest.raises(MissingField, match=key):
        as_served(model, rules(), None)
    known = replace(model, layers=(Layer((Latent(40, 256, 32, 64, 64),)),))
    assert as_served(known, rules(), None).layers[0].caches == (Attention(40, 40, 96, 96),)
