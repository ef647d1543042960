"""kvplan's own descriptions: what they mean, and what is refused where."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fullest import fullest

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.layers import (
    FP8_INDEX,
    Attention,
    Compressed,
    CrossAttention,
    Indexer,
    Latent,
    Layer,
    Recurrent,
    StateTensor,
)
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.errors import ConfigError, KvplanError
from kvplan.sources.bundled import model_names
from kvplan.sources.description import model_from_description
from kvplan.sources.dump import dump
from kvplan.sources.models import load_model
from kvplan.sources.strict import parse_yaml_mapping

BF16 = FORMATS["bf16"]
KV = KvFormat(BF16, BF16)


def described(text: str) -> Model:
    config, lines = parse_yaml_mapping(text, "m.yaml")
    return model_from_description(config, Origin("m.yaml", "m.yaml"), lines)


FIVE_LINES = "kvplan: 1\nname: my-model\nlayers: 32\nkv_heads: 8\nhead_dim: 128\n"


def test_five_lines_are_a_model() -> None:
    model = described(FIVE_LINES)
    assert model.curve(KV).bytes_at(1) == 32 * 8 * (128 + 128) * 2  # 131,072: Llama-3-8B's
    assert model.origin.id == "my-model"
    assert model.context.tokens is None
    assert (model.hidden_size, model.vocab_size, model.weights) == (None, None, None)
    assert [default.field for default in model.defaulted] == ["dtype"]


def test_every_field_of_the_page() -> None:
    model = described(
        FIVE_LINES + "heads: 32\nhidden_size: 4096\nvocab_size: 128256\nmax_context: 128k\ndtype: float16\n"
        "kv_dtype: q8_0:f16\nparameters: 8030261248\nsource: a paper\n"
    )
    assert model.layers[0] == Layer((Attention(32, 8, 128, 128),))
    assert (model.hidden_size, model.vocab_size, model.context.tokens) == (4096, 128256, 131072)
    assert model.dtype == FORMATS["fp16"]
    assert model.kv_hint == KvFormat(FORMATS["q8_0"], FORMATS["fp16"])
    assert model.weights is not None
    assert (model.weights.total, model.weights.active, model.weights.exact) == (8030261248, 8030261248, True)
    assert model.weights.bytes == 2 * 8030261248
    assert fullest(model.weights, Parallel(tp=8)) == pytest.approx(2 * 8030261248 / 8, rel=1e-6)
    assert model.origin.source == "a paper"
    assert model.defaulted == ()


def test_experts_follow_from_total_and_active() -> None:
    # 100 shared + 8 x 50 = 500 in all, 100 + 2 x 50 = 200 for one token
    text = "parameters: {total: 500, active: 200, experts: 8, experts_per_token: 2}\nweight_dtype: fp8\n"
    weights = described(FIVE_LINES.replace("32", "1") + text).weights
    assert weights is not None
    assert (weights.total, weights.active, weights.bytes, weights.exact) == (500, 200, 500, True)
    assert weights.read_bytes(1) == (200, 200, 200)
    assert weights.read_bytes(1000).high == 500
    rounded = described(
        FIVE_LINES + "parameters: {total: 671B, active: 37B, experts: 256, experts_per_token: 8}\n"
    ).weights
    assert rounded is not None
    assert rounded.total == 671 * 10**9
    assert rounded.active == pytest.approx(37e9, rel=1e-6)
    assert not rounded.exact


def test_groups_in_order_and_patterns() -> None:
    full, local = Attention(16, 8, 256, 256), Attention(16, 8, 256, 256, window=1024)
    shape = "kvplan: 1\nname: x\nheads: 16\nkv_heads: 8\nhead_dim: 256\nwindow: 1024\n"
    listed = described(shape + "layers:\n  - {count: 5, kind: sliding}\n  - full\n  - {count: 2, kind: sliding}\n")
    cycled = described(shape + "layers: 8\npattern: [{kind: sliding, count: 5}, full]\n")
    assert listed.layers == cycled.layers == tuple(Layer((cache,)) for cache in [local] * 5 + [full] + [local] * 2)


def test_a_layer_of_every_kind_is_read_from_a_description() -> None:
    model = described("""
kvplan: 1
name: everything
hidden_size: 4096
layers:
  - {kind: full, kv_heads: 4, k_dim: 192, v_dim: 128}
  - {kind: sliding, heads: 8, kv_heads: 2, head_dim: 64, window: 4k, sinks: 4}
  - {kind: chunked, kv_heads: 2, head_dim: 64, chunk: 8192}
  - {kind: latent, heads: 128, rank: 512, rope_dim: 64, nope_dim: 128, v_dim: 128, topk: 2048, indexer: {dim: 128, pool: 4}}
  - {kind: full, heads: 16, kv_heads: 2, head_dim: 256, topk: 2048, indexer: {dim: 256, dtype: bfloat16, pool: 16, gates: false}}
  - {kind: compressed, heads: 64, head_dim: 512, window: 128, ratio: 4, topk: 512, state_elements: 100}
  - kind: recurrent
    law: mamba2
    tensors:
      - {role: conv, rows: 3, widths: [[8, 64], [2, 256]]}
      - {role: recurrent, rows: 1, widths: [[8, 8192]], dtype: float32}
  - {kind: cross, heads: 8, kv_heads: 8, head_dim: 64, tokens: 1500}
  - {kind: none}
  - {kind: none, shares_with: 1}
  - caches:
      - {kind: full, kv_heads: 4, head_dim: 64}
      - {kind: cross, heads: 8, kv_heads: 8, head_dim: 64, tokens: 1500}
""")
    mamba = Recurrent(
        "mamba2",
        (StateTensor("conv", 3, ((8, 64), (2, 256))), StateTensor("recurrent", 1, ((8, 8192),), FORMATS["fp32"])),
        "the description m.yaml",
    )
    cross = CrossAttention(8, 8, 64, 64, 1500)
    assert model.layers == (
        Layer((Attention(None, 4, 192, 128),)),
        Layer((Attention(8, 2, 64, 64, window=4096, sinks=4),)),
        Layer((Attention(None, 2, 64, 64, chunk=8192),)),
        Layer((Latent(128, 512, 64, 128, 128, Indexer(128, FP8_INDEX, 4), 2048),)),
        Layer((Attention(16, 2, 256, 256, indexer=Indexer(256, FORMATS["bf16"], 16, gated=False), topk=2048),)),
        Layer((Compressed(64, 512, 128, 4, None, 512, 100),)),
        Layer((mamba,)),
        Layer((cross,)),
        Layer(),
        Layer(shares_with=1),
        Layer((Attention(None, 4, 64, 64), cross)),
    )


BAD = {
    # the last line changes the five lines above it: message, place
    "kv_head: 8": ("kv_head is not a field of a kvplan description", "line 6 of m.yaml", "did you mean kv_heads?"),
    "window: 128": ("window is not a field of a layer of kind full", "line 6 of m.yaml", "sliding, latent, compressed"),
    "heads: 30": ("heads is 30, not a multiple of the 8 kv_heads", "line 6 of m.yaml", ""),
    "heads: 0": ("heads is 0, not a whole number from 1 to 16,777,216", "line 6 of m.yaml", ""),
    "heads: true": ("heads is True, not a whole number", "line 6 of m.yaml", ""),
    "heads: '8'": ("heads is '8', not a whole number", "line 6 of m.yaml", ""),
    "heads: 1.5": ("heads is 1.5, not a whole number", "line 6 of m.yaml", ""),
    "heads: 99999999999": ("heads is 99999999999, not a whole number", "line 6 of m.yaml", ""),
    "max_context: 8x": ("max_context is '8x', not a number of tokens", "line 6 of m.yaml", ""),
    "dtype: fp9": ("dtype is 'fp9', not a number format", "line 6 of m.yaml", "known"),
    "kv_dtype: [1]": ("kv_dtype is [1], not a line of text", "line 6 of m.yaml", ""),
    "parameters: many": ("parameters is 'many', not a number of parameters", "line 6 of m.yaml", ""),
    "parameters: {active: 3}": ("parameters.total is missing", "line 6 of m.yaml", ""),
    "parameters: {total: 9, active: 10, experts: 2, experts_per_token: 1}": ("active is 10, not from", "line 6", ""),
    "parameters: {total: 9, active: 8}": ("parameters.experts is missing", "line 6 of m.yaml", ""),
    "pattern: []": ("pattern is [], not a list", "line 6 of m.yaml", ""),
    "pattern: [ful]": ("pattern[0].kind is 'ful', not one of full, sliding", "line 6 of m.yaml", ""),
    "pattern: [sliding]": ("pattern[0].window is missing", "line 6 of m.yaml", "window"),
    "kind: recurrent": ("kv_heads is not a field of a layer of kind recurrent", "line 4", "full, sliding"),
    "kind: latent": ("kv_heads is not a field of a layer of kind latent", "line 4", ""),
}


@pytest.mark.parametrize(("line", "expected"), BAD.items())
def test_refusals_name_field_and_line(line: str, expected: tuple[str, str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        described(FIVE_LINES + line + "\n")
    problem = caught.value.problem
    assert expected[0] in problem.what, problem
    assert expected[1] in (problem.cause or ""), problem
    assert expected[2] in (problem.hint or ""), problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FIVE_LINES.replace("layers: 32", "layers: 5000"), "layers is 5000, not a whole number from 1 to 4,096"),
        (FIVE_LINES.replace("layers: 32", "layers: [{count: 4000}, {count: 97}]"), "layers[1] is 97, not a count"),
        (FIVE_LINES.replace("layers: 32", "layers: [none, {kind: none, shares_with: 0}]"), "layers[1].shares_with is 0"),
        (FIVE_LINES.replace("layers: 32", "layers: [{kind: none, shares_with: 7}]"), "layers[0].shares_with is 7"),
        (FIVE_LINES.replace("layers: 32", "layers: [{caches: [{kind: sliding}]}]"), "layers[0].caches[0].window is missing"),
        (FIVE_LINES.replace("layers: 32", "layers: [full]\nwindow: 128"), "window is given, but no layer uses it"),
        (FIVE_LINES.replace("layers: 32", "layers: [[full]]"), "layers[0] is ['full'], not a mapping of fields"),
        (FIVE_LINES.replace("layers: 32\n", ""), "layers is missing"),
        (FIVE_LINES.replace("kv_heads: 8\n", ""), "kv_heads is missing"),
        (FIVE_LINES.replace("name: my-model\n", ""), "name is missing"),
        (FIVE_LINES.replace("kvplan: 1", "kvplan: 2"), "kvplan is 2, not 1, the only one known"),
        (FIVE_LINES + "max_context: 99999999m\n", "max_context is 104857598951424, not a number of tokens from 1 to"),
        (FIVE_LINES.replace("my-model", '"a\\nb"'), "name is 'a\\nb', not a line of text"),
    ],
)  # fmt: skip
def test_refusals_of_layers(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        described(text)
    assert message in caught.value.problem.what


def test_json_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"kvplan": 1, "name": "my-model", "layers": 32, "kv_heads": 8, "head_dim": 128}')
    assert load_model(str(path)).layers == described(FIVE_LINES).layers
    path.write_text('{"kvplan": 1, "name": "my-model", "layers": 32, "kv_head": 8, "head_dim": 128}')
    with pytest.raises(ConfigError, match="kv_head is not a field") as caught:
        load_model(str(path))
    assert caught.value.problem.cause == f"in {path}"


def test_what_is_dumped_loads_to_the_same_layers(count_cases: Callable[[str, int], None]) -> None:
    checked = 0
    for name in model_names():
        model = load_model(name)
        text = dump(model)
        again = described(text)
        assert again.layers == model.layers, name
        assert again.draft_layers == model.draft_layers, name
        assert (again.dtype, again.kv_hint, again.context.tokens) == (model.dtype, model.kv_hint, model.context.tokens)
        assert dump(again) == text
        checked += 1
    count_cases("bundled models dumped and loaded", checked)
    assert checked >= 70


def test_dump_is_short() -> None:
    assert dump(described(FIVE_LINES)) == FIVE_LINES + "dtype: bf16\n"
    text = FIVE_LINES.replace(
        "layers: 32", "layers: 6\npattern:\n  - {count: 2, kind: full}\n  - {kind: none, shares_with: 0}"
    )
    assert "pattern" in dump(described(text))


def test_mutated_descriptions_answer_or_are_refused() -> None:
    values = (None, 0, -1, 1, True, 1.5, "8", "x" * 500, [], {}, [[]], {"a": 1}, 10**39, "full")
    config, _ = parse_yaml_mapping(FIVE_LINES + "heads: 32\nmax_context: 8k\n", "m.yaml")
    for key in [
        *config,
        "pattern",
        "draft_layers",
        "kind",
        "parameters",
        "kv_dtype",
        "dtype",
        "indexer",
        "window",
        "new",
    ]:
        for value in values:
            try:
                model_from_description({**config, key: value}, Origin("x", "x"))
            except KvplanError as error:
                assert len(error.problem.what) < 250  # noqa: PT017 - either an answer or this


@pytest.mark.parametrize(
    ("text", "rounding"),
    [
        ("8.03B", 5_000_000),
        ("8B", 500_000_000),
        ("1.50T", 5_000_000_000),
        ("361M", 500_000),
        ("8030261248", 0),
        ("{total: 671B, active: 37.0B, experts: 256, experts_per_token: 8}", 550_000_000),
    ],
)
def test_a_rounded_count_is_off_by_half_a_unit_of_its_last_digit(text: str, rounding: int) -> None:
    weights = described(f"{FIVE_LINES}parameters: {text}\n").weights
    assert weights is not None
    assert (weights.rounding, weights.missing) == (rounding, ())


TWO_KINDS: dict[str, Any] = {
    "kvplan": 1, "name": "x", "heads": 8, "kv_heads": 4, "head_dim": 64, "hidden_size": 512, "intermediate_size": 1024,
    "vocab_size": 1000, "max_context": 4096, "dtype": "bf16", "kv_dtype": "fp8", "weight_dtype": "fp8",
    "parameters": {"total": 10**8, "active": 5 * 10**7, "experts": 8, "experts_per_token": 2},
    "layers": [
        {"count": 3, "kind": "sliding", "window": 512, "sinks": 4},
        {"kind": "latent", "rank": 512, "rope_dim": 64, "nope_dim": 128, "v_dim": 128, "topk": 64, "indexer": {"dim": 128, "pool": 4}},
        {"kind": "recurrent", "law": "mamba2", "tensors": [{"role": "conv", "rows": 3, "widths": [[8, 64], [2, 256]]}]},
    ],
}  # fmt: skip


def _places(node: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], object]]:
    for step, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*path, step), value
        yield from _places(value, (*path, step))


def test_a_wrong_type_is_refused_by_name_or_means_the_same() -> None:
    before = model_from_description(TWO_KINDS, Origin("m.yaml", "m.yaml"))
    for path, stated in _places(TWO_KINDS):
        wrong: list[object] = [[stated], {"a": stated}, True, -3, 1.5, 5 if isinstance(stated, str) else str(stated)]
        for value in wrong:
            changed = copy.deepcopy(TWO_KINDS)
            node: Any = changed
            for step in path[:-1]:
                node = node[step]
            node[path[-1]] = value
            name = next(step for step in reversed(path) if isinstance(step, str))
            try:
                assert model_from_description(changed, Origin("m.yaml", "m.yaml")) == before, (path, value)
            except KvplanError as error:
                assert name in f"{error.problem.what} {error.problem.cause}", (path, value)  # noqa: PT017
