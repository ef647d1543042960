"""Values of wrong types and signs: refused by the field's name, or without any effect, at every depth of a config.

What the fields mean is transformers' and vLLM's: a strict configuration class of transformers 5.23 takes neither "32" nor "false",
and an older one takes "false" for true.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvplan.arch.layers import Attention, CrossAttention
from kvplan.arch.model import Model, Origin
from kvplan.errors import BadField, KvplanError
from kvplan.families import read
from kvplan.families.locate import text_fields
from kvplan.families.weights.symbols import ConfigSymbols
from kvplan.families.weights.template import dimension

BUNDLED = Path(__file__).parents[2] / "configs" / "models"

FAMILIES = (
    "gemma-3-27b", "gemma-4-e2b", "kimi-k2.5", "deepseek-r1", "lfm2-1.2b", "llama-3.2-11b-vision", "qwen3-vl-8b",
    "jamba-v0.1", "falcon-h1-7b", "llama-3.3-nemotron-super-49b", "qwen3.5-0.8b", "mimo-v2-flash", "deepseek-v4-flash",
)  # fmt: skip

GROUP = "text_config.quantization_config.config_groups.group_0.weights"

WITHOUT_EFFECT = {
    ("lfm2-1.2b", "num_heads"): "a note alone, that its class doesn't read it",
    ("", "factor"): "of rotary positions: engines are asked, which refuse what isn't a number (rope.unread)",
}
"""Fields whose wrong values change something else than the answer."""

ALSO_MEANT = {
    ("mimo-v2-flash", "moe_layer_freq", "a number"): "every third layer",
}
"""Other types that a field may be of."""


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BUNDLED / f"{name}.json").read_text(encoding="utf-8"))["config"]
    return found


def answer(changed: dict[str, Any]) -> Model:
    """Everything read of a config, but for what is only told about it."""
    return replace(read(changed, Origin("mutated", "mutated")), traits=())


def fields(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in node.items():
        yield (*path, name), value
        if isinstance(value, dict):
            yield from fields(value, (*path, name))


WRONG: dict[type, Callable[[Any], dict[str, object]]] = {
    bool: lambda value: {"text": str(value).lower(), "a list": [value], "an object": {"a": value}},
    int: lambda value: {
        "text": str(value), "a fraction": value + 0.5, "a list": [value], "an object": {"a": value},
        "below zero": -value if value > 1 else -7,
    },
    float: lambda value: {"text": str(value), "below zero": -value or -0.5, "a list": [value], "an object": {"a": value}},
    str: lambda value: {"a number": 5, "a list": [value], "an object": {"a": value}},
    dict: lambda value: {"text": "x", "a list": [value], "an empty list": [], "a switch": True},
    list: lambda _: {"text": "x", "an empty object": {}, "a number": 3},
    type(None): lambda _: {},
}  # fmt: skip
"""For a value that a field has, those that it can't have, by what they are."""


def put(node: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    changed = copy.deepcopy(node)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", FAMILIES)
def test_a_wrong_type_is_refused_by_name_or_changes_nothing(name: str) -> None:
    original = config(name)
    before, silent = answer(original), []
    for path, stated in fields(original):
        if {(name, path[-1]), ("", path[-1])} & WITHOUT_EFFECT.keys():
            continue
        for kind, value in WRONG[type(stated)](stated).items():
            try:
                after = answer(put(original, path, value))
            except KvplanError as error:
                told = f"{error.problem.what} {error.problem.cause}"
                if path[-1] not in told:
                    silent.append((".".join(path), kind, told))
                continue
            if after != before and (name, path[-1], kind) not in ALSO_MEANT:
                silent.append((".".join(path), kind, "another answer"))
    assert silent == []


@pytest.mark.parametrize(
    ("name", "path", "value", "field"),
    [
        ("qwen3-8b", "tie_word_embeddings", "false", "tie_word_embeddings"),
        ("qwen3-8b", "attention_bias", "false", "attention_bias"),
        ("starcoder2-7b", "use_bias", "false", "use_bias"),
        ("gemma-3-27b", "text_config", [{}], "text_config"),
        ("gemma-3-27b", "vision_config", "siglip", "vision_config"),
        ("gemma-3-27b", "text_config.rope_scaling", [], "text_config.rope_scaling"),
        ("llama-3-8b", "quantization_config", "fp8", "quantization_config"),
        ("kimi-k2.5", "text_config.quantization_config.ignore", "re:.*", "text_config.quantization_config.ignore"),
        ("kimi-k2.5", f"{GROUP}.group_size", "32", f"{GROUP}.group_size"),
        ("kimi-k2.5", f"{GROUP}.group_size", 32.0, f"{GROUP}.group_size"),
        ("kimi-k2.5", f"{GROUP}.num_bits", "4", f"{GROUP}.num_bits"),
        ("kimi-k2.5", f"{GROUP}.group_size", 0, f"{GROUP}.group_size"),
        ("kimi-k2.5", f"{GROUP}.group_size", -2, f"{GROUP}.group_size"),
        ("kimi-k2.5", "text_config.quantization_config.ignore", ["lm_head", 0], "text_config.quantization_config.ignore[1]"),
        ("deepseek-r1", "quantization_config.weight_block_size", [], "quantization_config.weight_block_size"),
        # built with matrices without a row, or divided by: vLLM 0.33 and transformers 5.23 alike
        ("deepseek-r1", "q_lora_rank", 0, "q_lora_rank"),
        ("deepseek-r1", "moe_layer_freq", 0, "moe_layer_freq"),
        ("qwen3-30b-a3b", "decoder_sparse_step", 0, "decoder_sparse_step"),
        ("lfm2-1.2b", "block_ffn_dim_multiplier", -1.0, "block_ffn_dim_multiplier"),
        ("lfm2-1.2b", "block_multiple_of", 0, "block_multiple_of"),
        ("llama-3-8b", "max_position_embeddings", [8192], "max_position_embeddings"),
        ("llama-3-8b", "rope_theta", "500000", "rope_theta"),  # vLLM 0.33: unsupported operand type(s) for **
        ("llama-3-8b", "intermediate_size", 0, "intermediate_size"),
        ("gemma-3-27b", "vision_config.hidden_size", 0, "vision_config.hidden_size"),
        ("gemma-3-27b", "vision_config.hidden_size", "1152", "vision_config.hidden_size"),
    ],
)  # fmt: skip
def test_what_would_take_too_little_memory_is_refused(name: str, path: str, value: object, field: str) -> None:
    with pytest.raises(BadField) as refused:
        answer(put(config(name), tuple(path.split(".")), value))
    assert field in refused.value.problem.what


def test_dimensions_that_come_out_below_zero_are_refused() -> None:
    symbols = ConfigSymbols(text_fields({"num_hidden_layers": 2}), {"wide": 4, "cut": 6})
    with pytest.raises(BadField, match="made of wide, cut"):
        dimension("wide-cut").value(symbols)


@pytest.mark.parametrize(
    ("name", "path", "chosen"),
    [
        # transformers 5.23 models/lfm2: "full_attention" if i in self.full_attn_idxs else "conv"
        ("lfm2-1.2b", "full_attn_idxs", lambda cache: isinstance(cache, Attention)),
        # vLLM 0.33 models/minimax_m3: {i for i, f in enumerate(freq) if f != 0}
        (
            "minimax-m3",
            "text_config.sparse_attention_config.sparse_attention_freq",
            lambda cache: isinstance(cache, Attention) and cache.indexer is not None,
        ),
        # transformers 5.23 models/mllama: if layer_idx in self.cross_attention_layers
        ("llama-3.2-11b-vision", "text_config.cross_attention_layers", lambda cache: isinstance(cache, CrossAttention)),
    ],
)
def test_an_empty_list_of_layers_chooses_none(name: str, path: str, chosen: Callable[[object], bool]) -> None:
    before, after = answer(config(name)), answer(put(config(name), tuple(path.split(".")), []))
    assert any(chosen(cache) for layer in before.layers for cache in layer.caches)
    assert not any(chosen(cache) for layer in after.layers for cache in layer.caches)
    assert len(after.layers) == len(before.layers)


def test_quant_methods_nobody_knows_say_what_they_like() -> None:
    block = {"quant_method": "exl2", "bits": 4.0, "calibration": "x"}
    weights = answer({**config("llama-3-8b"), "quantization_config": block}).weights
    assert weights is not None
    assert weights.missing


def test_fields_that_nobody_reads_are_free() -> None:
    original = config("qwen3-8b")
    assert answer({**original, "my_settings": "false", "my_config": [1]}) == answer(original)
