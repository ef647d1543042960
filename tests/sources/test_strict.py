"""Strict JSON and YAML: what is refused, where, and that nothing but a KvplanError ever comes out."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.errors import BadFile, KvplanError
from kvplan.sources.files import read_path
from kvplan.sources.strict import MAX_DEPTH, decoded, parse_json, parse_json_object, parse_yaml_mapping

BAD_JSON = {
    '{"a": 1, "b": }': "expecting value at line 1, column 15",
    '{"a": 1,\n "b": [1, 2': "it ends early: expecting ',' delimiter at line 2, column 12",
    '{"a": "x': "it ends early: unterminated string",
    '{"a": 1} {"b": 2}': "extra data at line 1, column 10",
    "{'a': 1}": "expecting property name enclosed in double quotes at line 1, column 2",
}
REFUSED_JSON = {
    '{"a": {"b": [1, NaN]}}': "a.b[1] is NaN, which is not a JSON number",
    '{"rope_theta": Infinity}': "rope_theta is Infinity, which is not a JSON number",
    '{"a": -Infinity}': "a is -Infinity",
    '{"a": 1e999}': "a is too large a number",
    '{"hidden_size": 1' + "0" * 5000 + "}": "hidden_size has 5001 digits",
    '{"t": {"k": 1, "x": 2, "k": 3}}': "t.k is given twice",
    '{"k": 1, "k": 3, "k": 3}': "k is given twice",
    '{"model_type": "\\ud800"}': "half a character",
    "NaN": "the document is NaN",
}


@pytest.mark.parametrize(("text", "cause"), BAD_JSON.items())
def test_broken_json_names_line_and_column(text: str, cause: str) -> None:
    with pytest.raises(BadFile, match=r"config\.json is not JSON") as caught:
        parse_json_object(text, "config.json")
    assert cause in (caught.value.problem.cause or "")


@pytest.mark.parametrize(("text", "message"), REFUSED_JSON.items())
def test_refused_values_name_their_path(text: str, message: str) -> None:
    with pytest.raises(BadFile) as caught:
        parse_json(text, "config.json")
    assert message in caught.value.problem.what


def test_the_same_value_given_twice_is_one() -> None:
    """As in inclusionAI/Ming-Lite-Omni's config.json, where auto_map stands twice: every reader takes the last."""
    assert parse_json_object('{"a": {"b": [1]}, "c": 2, "a": {"b": [1]}}', "config.json") == {"a": {"b": [1]}, "c": 2}


def test_infinite_time_step_limit_is_what_mamba2_ships() -> None:
    tree = parse_json_object('{"time_step_limit": [0.0, Infinity], "nested": {"time_step_limit": [0, -Infinity]}}', "x")
    assert tree == {"time_step_limit": [0.0, math.inf], "nested": {"time_step_limit": [0, -math.inf]}}


@pytest.mark.parametrize(
    ("text", "what"), [("[1]", "a list"), ('"x"', "a string"), ("null", "null"), ("3", "a number")]
)
def test_json_that_is_no_object_is_refused_by_its_kind(text: str, what: str) -> None:
    with pytest.raises(BadFile, match=f"holds {what}, not a JSON object"):
        parse_json_object(text, "config.json")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 100_000, 1_000_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    with pytest.raises(BadFile, match="nested too deep"):
        parse_json('{"a":' + "[" * depth + "]" * depth + "}", "config.json")
    with pytest.raises(BadFile, match=r"nested too deep|is not YAML"):  # libyaml itself stops at 1,000
        parse_yaml_mapping("a: " + "[" * depth + "]" * depth, "model.yaml")


def test_deepest_allowed() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH, "x") is not None
    with pytest.raises(BadFile, match="nested too deep"):
        parse_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "x")


def test_bytes_that_are_not_utf8_or_are_empty_are_refused() -> None:
    assert parse_json_object(decoded(b"\xef\xbb\xbf{}", "x"), "x") == {}
    for raw, message in (
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{"a": "\xff"}', "not UTF-8"),
        ("{}".encode("utf-16"), "UTF-8"),
    ):
        with pytest.raises(BadFile, match=message):
            decoded(raw, "config.json")


BAD_YAML = {
    "kvplan: 1\nlayers: 3\nlayers: 4\n": "line 3 of m.yaml gives layers again; line 2 did already",
    "a:\n  b: 1\n  b: 2\n": "line 3 of m.yaml gives a.b again; line 2 did already",
    "a: &x [1]\nb: *x\n": "line 1 of m.yaml uses an anchor or alias",
    "a: !!python/object/apply:os.system [echo]\n": "line 1 of m.yaml has the tag",
    "a: 1\n---\nb: 2\n": "starts a second document",
    "a: .inf\n": "a is .inf, which no dimension can be",
    "a: 1e999\n": "a is too large a number",
    "1: 2\n": "has a key that is not a word",
    "[1, 2]: 3\n": "has a key that is not a word",
    "- 1\n": "holds a list, not a mapping",
    "# nothing\n": "is empty",
}


@pytest.mark.parametrize(("text", "message"), BAD_YAML.items())
def test_bad_yaml_names_the_line(text: str, message: str) -> None:
    with pytest.raises(BadFile) as caught:
        parse_yaml_mapping(text, "m.yaml")
    assert message in caught.value.problem.what


def test_broken_yaml_names_line_and_column() -> None:
    with pytest.raises(BadFile, match=r"m\.yaml is not YAML") as caught:
        parse_yaml_mapping("a: 1\nb: [1, 2\nc: 3\n", "m.yaml")
    assert "at line 3, column" in (caught.value.problem.cause or "")


def test_pure_python_yaml_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "kvplan: 1\nname: x # why\nlayers:\n  - {count: 3, kind: full}\n"
    fast = parse_yaml_mapping(text, "m.yaml")
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert parse_yaml_mapping(text, "m.yaml") == fast
    assert fast[1] == {(): 1, ("kvplan",): 1, ("name",): 2, ("layers",): 3, ("layers", 0): 4, ("layers", 0, "count"): 4,
                       ("layers", 0, "kind"): 4}  # fmt: skip


def test_billion_laughs_is_refused_at_once() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    start = time.process_time()
    with pytest.raises(BadFile, match="anchor or alias"):
        parse_yaml_mapping(bomb, "m.yaml")
    assert time.process_time() - start < 1


def test_yaml_scalars_are_those_of_yaml_1_2() -> None:
    text = "{a: 1_000, b: 007, c: yes, d: 1:30, e: ~, f: true, g: '5', h: 1.5e2, i: 2001-01-01, j: -4}"
    tree, _ = parse_yaml_mapping(text, "m.yaml")
    assert tree == {
        "a": 1000, "b": "007", "c": "yes", "d": "1:30", "e": None, "f": True, "g": "5", "h": 150.0, "i": "2001-01-01", "j": -4,
    }  # fmt: skip


def test_large_files_are_refused_without_reading_them(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(200 * 10**6)
    start = time.process_time()
    with pytest.raises(BadFile, match="too large") as caught:
        read_path(path, "config.json")
    assert time.process_time() - start < 0.1
    assert "191 MiB" in (caught.value.problem.cause or "")


def test_large_but_real_config_is_read_quickly() -> None:
    names = {
        f"model.layers.{layer}.mlp.experts.{expert}.gate_proj": {"num_bits": 4}
        for layer in range(60)
        for expert in range(256)
    }
    text = json.dumps({"quantization_config": {"quantized_layers": names}})
    start = time.process_time()
    assert parse_json_object(text, "config.json")
    assert time.process_time() - start < 1


# Whatever comes in, only a KvplanError comes out ---------------------------------------------------------------------

REAL = json.dumps(
    {
        "model_type": "llama",
        "hidden_size": 4096,
        "rope_scaling": {"factor": 8.0},
        "layer_types": ["full_attention"] * 4,
        "x": None,
    }
).encode()
REAL_YAML = b"kvplan: 1\nname: my-model\nlayers:\n  - {count: 3, kind: sliding, window: 128}\n  - full\nkv_heads: 8\n"


def survives(raw: bytes) -> None:
    """Both readers either answer or refuse."""
    for read in (parse_json_object, parse_yaml_mapping):
        try:
            read(decoded(raw, "input"), "input")
        except KvplanError as error:
            assert 0 < len(error.problem.what) < 400  # noqa: PT017 - either an answer or this
            "\n".join(filter(None, (error.problem.what, error.problem.cause, error.problem.hint))).encode()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(raw: bytes) -> None:
    survives(raw)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]",:-&*!?|>#%@` \n\t01eE.+ab\\u~<', max_size=60))
def test_random_syntax_is_read_or_refused(text: str) -> None:
    survives(text.encode())


def test_mutated_files() -> None:
    randomness = random.Random(20)  # noqa: S311 - reproducible, not secret
    for _ in range(3_000):
        raw = bytearray(randomness.choice((REAL, REAL_YAML)))
        for _ in range(randomness.randint(1, 4)):
            at = randomness.randrange(len(raw))
            change = randomness.randrange(5)
            if change == 0:
                raw[at] = randomness.randrange(256)
            elif change == 1:
                del raw[at:]
            elif change == 2:
                del raw[at : at + randomness.randint(1, 9)]
            elif change == 3:
                raw[at:at] = randomness.choice(
                    (b"[" * 80, b"9" * 60, b"1e999", b"NaN", b'"', b"\\ud8", b"&a *a", b"\x00")
                )
            else:
                raw[at:at] = raw[at : at + 20]
            raw = raw or bytearray(b"x")
        survives(bytes(raw))


def test_real_configs_are_read(corpus: Path, count_cases: Callable[[str, int], None]) -> None:
    files = sorted((corpus / "configs").glob("*.json")) + sorted((corpus / "hf_quant").glob("*.json"))
    for path in files:
        assert read_path(path, path.name).config
    count_cases("real configs parsed strictly", len(files))
    assert len(files) >= 250
