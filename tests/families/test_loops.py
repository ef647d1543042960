"""Layers that are gone through more than once keep a cache for each pass. Blocks are what vLLM 0.33's own planner answers."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks import allocate
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import BadField, MissingField, NotSplit, Unsupported
from kvplan.families import read
from kvplan.sources.gpus import load_gpu
from kvplan.units import GIB

HRM = {
    "architectures": ["HrmTextForCausalLM"], "model_type": "hrm_text", "hidden_size": 1536, "intermediate_size": 4096, "head_dim": 128,
    "num_attention_heads": 12, "num_hidden_layers": 16, "max_position_embeddings": 2048, "vocab_size": 151808, "H_cycles": 2, "L_cycles": 3,
    "dtype": "bfloat16",
}  # fmt: skip
OURO = {
    "architectures": ["OuroForCausalLM"], "model_type": "ouro", "hidden_size": 2048, "intermediate_size": 5632, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 24, "max_position_embeddings": 65536, "vocab_size": 49152,
    "torch_dtype": "bfloat16",
}  # fmt: skip
IQUEST = {
    "architectures": ["IQuestLoopCoderForCausalLM"], "model_type": "iquestloopcoder", "hidden_size": 5120, "intermediate_size": 27648,
    "head_dim": 128, "num_attention_heads": 40, "num_key_value_heads": 8, "num_hidden_layers": 80, "max_position_embeddings": 131072,
    "vocab_size": 76800, "torch_dtype": "bfloat16", "auto_map": {"AutoConfig": "configuration_iquestloopcoder.Config"},
}  # fmt: skip
DORY = {
    "architectures": ["DoryForCausalLM"], "model_type": "dory", "hidden_size": 2560, "intermediate_size": 7168, "head_dim": 256,
    "num_attention_heads": 16, "num_key_value_heads": 4, "num_hidden_layers": 24, "max_position_embeddings": 8192, "vocab_size": 131072,
    "sliding_window": 1024, "n_input_layers": 4, "n_output_layers": 4, "n_recurrent_layers": 16, "torch_dtype": "bfloat16",
    "layer_types": ["full_attention" if i % 8 == 6 else "mlp" if i % 2 else "sliding_attention" for i in range(24)],
}  # fmt: skip
PLAIN = {
    "model_type": "unheard_of", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4, "intermediate_size": 1024,
}  # fmt: skip


def model(config: dict[str, Any], **fields: object) -> Model:
    return read({**config, **fields}, Origin("test", "test"))


def blocks(found: Model, tp: int = 1) -> tuple[int, int]:
    """Blocks and tokens that 40 GiB of cache are on an H100 each, at the model's longest."""
    setup = Setup(found, load_gpu("h100"), Parallel(tp), None, Options(), found.context.tokens or 0)
    pool = allocate.pool(Vllm().start(setup).made, 40 * GIB)
    assert isinstance(pool, allocate.Pool)
    return pool.blocks, pool.tokens


def row(found: Model) -> int:
    """Bytes that a token costs on one GPU as long as no window is full, in 16 bit: 2 B an element."""
    return sum(2 * cache.kv_heads * (cache.k_dim + cache.v_dim) for layer in found.layers for cache in layer.caches)


@pytest.mark.parametrize(
    "said", [{}, {"num_layers_per_stack": None}, {"num_hidden_layers": 128, "num_layers_per_stack": 16}]
)
def test_both_stacks_of_hrm(said):
    """16 layers x 2 high cycles x (3 low cycles + 1) = 128 slots of 2 x 12 x 128 x 2 B."""
    found = model(HRM, **said)
    assert row(found) == 128 * 6144
    assert len(found.layers) == 32
    assert blocks(found) == (3413, 54608)


def test_a_stack_that_states_its_own_layers_alone():
    """vLLM 0.33's planner of 8 layers a stack and nothing else: 64 slots of 6,144 B."""
    found = read(
        {"model_type": "hrm_text", "architectures": HRM["architectures"], "num_layers_per_stack": 8},
        Origin("test", "test"),
    )
    assert blocks(found) == (6826, 109_216)


def test_fewer_low_cycles():
    assert row(model(HRM, L_cycles=2)) == 16 * 2 * 3 * 6144


@pytest.mark.parametrize(("said", "passes"), [({"total_ut_steps": 4}, 4), ({}, 4), ({"total_ut_steps": 1}, 1)])
def test_a_whole_stack_again(said, passes):
    """Ouro's own cache has layers x steps slots, 4 steps where its class is left to itself: 96 x 2 x 16 x 128 x 2 B."""
    assert row(model(OURO, **said)) == passes * 24 * 8192


@pytest.mark.parametrize("said", [{}, {"loop_num": 2}, {"loop_num": 2, "loop_window_size": 64}])
def test_later_passes_that_keep_a_window(said):
    found = model(IQUEST, **said)
    assert blocks(found, 4)[1] == 465781
    assert [cache.cap for cache in found.layers[0].caches] == [None, 64]


def test_as_many_windows_as_later_passes():
    found = model(IQUEST, loop_num=3, loop_window_size=128)
    assert [cache.cap for cache in found.layers[79].caches] == [None, 128, 128]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"n_recurrent_loops": 3, "recurrent_kv_cache_mode": "per_loop"}, (93622, 373940)),
        ({"n_recurrent_loops": 3}, (93622, 373940)),
        ({"n_recurrent_loops": 3, "recurrent_kv_cache_mode": "last_loop"}, (218453, 872533)),
        ({"n_recurrent_loops": 1}, (218453, 872533)),
    ],
)
def test_the_middle_again(said, expected):
    assert blocks(model(DORY, **said)) == expected


def test_a_middle_that_does_not_add_up():
    with pytest.raises(BadField, match="n_recurrent_layers"):
        model(DORY, n_recurrent_layers=10)
    with pytest.raises(BadField, match="recurrent_kv_cache_mode"):
        model(DORY, recurrent_kv_cache_mode="first_loop")
    with pytest.raises(MissingField, match="layer_types"):
        model(DORY, layer_types=None)


NAMES = (
    "total_ut_steps", "loop_num", "num_loops", "n_loops", "num_recursions", "recursion_depth", "num_repeats", "layer_repeat",
    "num_unrolls", "H_cycles",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["unheard_of", "llama"])
def test_passes_that_no_one_knows_are_refused(name, kind):
    with pytest.raises(Unsupported, match=name):
        model(PLAIN, model_type=kind, **{name: 4})


@pytest.mark.parametrize("name", NAMES)
def test_one_pass_is_what_every_stack_has(name):
    assert row(model(PLAIN, **{name: 1})) == row(model(PLAIN))


def test_passes_in_an_object():
    with pytest.raises(Unsupported, match="recursive"):
        model(PLAIN, model_type="llama", recursive={"enable": True, "num_recursion": 3})
    assert row(model(PLAIN, recursive={"enable": False, "num_recursion": 3})) == row(model(PLAIN))


def test_dory_is_not_split():
    """vLLM 0.33 models/dory.py: Dory currently supports tensor_parallel_size=1 only."""
    with pytest.raises(NotSplit, match="--tp 2"):
        blocks(model(DORY, n_recurrent_loops=3), 2)


DORY_NULLS = ("n_input_layers", "n_output_layers", "n_recurrent_loops", "recurrent_kv_cache_mode")


@pytest.mark.parametrize("name", DORY_NULLS)
def test_a_null_that_dory_s_class_takes_no_default_for(name):
    """vLLM 0.33 of each: expected int (or str), got NoneType."""
    config = {
        "model_type": "dory", "num_hidden_layers": 8, "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 64, "layer_types": ["full_attention", "mlp"] * 4, "vocab_size": 1024, "intermediate_size": 512,
    }  # fmt: skip
    read(config, Origin("test", "test"))
    with pytest.raises(BadField, match=f"{name} is null"):
        read({**config, name: None}, Origin("test", "test"))
