"""Fields of types that no class knows: read, harmless, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.errors import MissingField, Unsupported
from kvplan.families import read

PLAIN = {
    "model_type": "unheard_of", "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "num_hidden_layers": 4,
    "intermediate_size": 8192, "vocab_size": 1000,
}  # fmt: skip
STEP5 = {**PLAIN, "model_type": "step5", "architectures": ["Step5ForCausalLM"], "head_dim": 128}


def model(config: dict[str, Any], **fields: object) -> Model:
    return read({**config, **fields}, Origin("test", "test"))


def sizes(found: Model) -> set[tuple[int, int]]:
    return {(cache.kv_heads, cache.k_dim) for layer in found.layers for cache in layer.caches}


def test_an_object_that_switches_itself_off():
    """vLLM 0.33 models/step5/nvidia/config.py: enabled is True where it isn't stated, and brings summaries and a ring."""
    with pytest.raises(Unsupported, match="sparse_config"):
        model(STEP5, sparse_config={"topk": 1024})
    assert sizes(model(STEP5, sparse_config={"enabled": False, "topk": 1024})) == {(4, 128)}


@pytest.mark.parametrize(
    ("name", "beside"),
    [("chunk_size", {}), ("index_topk", {}), ("num_query_groups", {"num_key_value_heads": None})],
)
def test_what_is_harmless_in_one_type_may_mean_anything_in_another(name, beside):
    with pytest.raises(Unsupported, match=name):
        model(PLAIN, **{name: 16}, **beside)


def test_groups_beside_kv_heads_are_those():
    assert sizes(model(PLAIN, num_query_groups=4)) == {(4, 128)}


@pytest.mark.parametrize(
    "name",
    [
        "head_size", "d_head", "dim_head", "hidden_size_per_head", "qk_dim", "qk_head_dim", "key_size", "value_head_dim", "v_dim",
        "attention_projection_size", "attn_hidden_size",
    ],
)  # fmt: skip
def test_another_width_than_was_taken(name):
    """2048 / 16 = 128 elements, 16 x 128 = 2048 of all queries, 4 x 128 = 512 of all keys; Yuan2-M32 states 4096 so."""
    with pytest.raises(Unsupported, match=f"{name} = 4096"):
        model(PLAIN, **{name: 4096})
    for size in (128, 512, 2048):
        assert sizes(model(PLAIN, **{name: size})) == {(4, 128)}


def test_a_stated_head_says_what_the_width_is_of():
    assert sizes(model(PLAIN, attention_projection_size=4096, head_dim=256)) == {(4, 256)}


@pytest.mark.parametrize(
    "name",
    [
        "mixer_types",
        "layers_type",
        "token_mixers",
        "layer_pattern",
        "kda_layers",
        "local_layers",
        "swa_pattern",
        "shape_of_each",
    ],
)
def test_a_list_that_tells_layers_apart(name):
    with pytest.raises(Unsupported, match=name):
        model(PLAIN, **{name: ["a", "b", "a", "a"]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shape_of_each", ["a"] * 4),
        ("moe_layer_freq", [0, 1, 1, 1]),
        ("anything", [1, 2, 3]),
        ("rope_layout", [0, 1, 0, 1]),
        ("image_grid_pinpoints", [[1, 1], [1, 2], [2, 1], [2, 2]]),  # resolutions: as many as layers in Logics-Thinking
    ],
)
def test_a_list_that_doesn_t(name, value):
    assert sizes(model(PLAIN, **{name: value})) == {(4, 128)}


def test_latents_that_are_switched_on_have_a_rank():
    with pytest.raises(MissingField, match="kv_lora_rank"):
        model(PLAIN, use_mla=True)
    assert sizes(model(PLAIN, use_mla=False)) == {(4, 128)}


@pytest.mark.parametrize("name", ["window_size", "sliding_window_size", "context_window_size"])
def test_a_window_by_another_name_caps_nothing(name):
    """EvaByte states window_size 2048 and keeps a summary of each of the 16-token chunks before it (arXiv:2302.04542)."""
    with pytest.raises(Unsupported, match=name):
        model(PLAIN, **{name: 2048})
    for off in (None, 0, -1):
        assert sizes(model(PLAIN, **{name: off})) == {(4, 128)}


def test_a_window_beside_chunks_caps_nothing():
    with pytest.raises(Unsupported, match="chunk_size"):
        model(PLAIN, sliding_window=2048, chunk_size=16)


def test_windows_that_are_known():
    assert {cache.cap for layer in model(PLAIN, sliding_window=2048).layers for cache in layer.caches} == {2048}
    fla = model(PLAIN, model_type="transformer", window_size=2048, num_heads=16)
    assert {cache.cap for layer in fla.layers for cache in layer.caches} == {2048}
