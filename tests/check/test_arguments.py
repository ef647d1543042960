"""vLLM's command lines, against what vLLM's own parser made of them, and what becomes of a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.check.budget import Place
from kvplan.check.serving.arguments import read_arguments
from kvplan.check.serving.command import CantRead, Configured
from kvplan.check.serving.meaning import layer_of
from kvplan.check.serving.words import Word

FACTS = json.loads((Path(__file__).parents[1] / "data" / "vllm-arguments.json").read_text())

NAMES = {
    "max_model_len": "context", "tensor_parallel_size": "parallel.tp", "pipeline_parallel_size": "parallel.pp",
    "data_parallel_size": "parallel.dp", "decode_context_parallel_size": "parallel.dcp", "kv_cache_dtype": "kv_dtype",
    "enable_expert_parallel": "parallel.ep", "revision": "revision", "model": "model",
}  # fmt: skip


def read(*words: str, config: str = "", positional: bool = True) -> tuple[dict[str, Any], list[str], list[str]]:
    """The layer by dotted keys, and the rules of its remarks, warnings and errors apart."""
    typed = [Word(word, number) for number, word in enumerate(words, 1)]
    found = read_arguments(typed, "f", lambda path: Configured(path, config) if config else None, positional=positional)
    layer = {".".join(key): placed.value for key, placed in layer_of(found).items()}
    warned = [remark.rule for remark in found.remarks if remark.level == "warn"]
    return layer, warned, [remark.rule for remark in found.remarks if remark.level == "error"]


def in_plain_values(layer: dict[str, Any]) -> dict[str, Any]:
    """Values of flags as vLLM has them: read from text."""
    from kvplan.check.flags import VLLM

    plain = dict(layer)
    for name in ("dtype", "quantization"):  # said of the checkpoint, which the facts leave out
        plain.pop(f"flags.{name}", None)
    for key, value in layer.items():
        name = key.removeprefix("flags.")
        if name in VLLM and key != name:
            read = VLLM[name].read(value)
            plain[key] = (not read) if VLLM[name].option in {"graphs", "hybrid_manager"} else read
    return plain


@pytest.mark.parametrize("fact", FACTS["lines"], ids=lambda fact: " ".join(fact["words"]))
def test_as_vllm_reads_them(fact: dict[str, Any]):
    words = fact["words"]
    if fact["said"] is None:  # vLLM refuses: an error, or for names of other versions a warning
        try:
            _, warned, errors = read(*words)
        except CantRead:
            return
        assert errors == ["bad-argument"] or warned == ["unknown-flag"]
        return
    layer, _, errors = read(*words, config=FACTS["config"])
    assert not errors
    said = {NAMES.get(name, f"flags.{name}"): value for name, value in fact["said"].items()}
    spec = said.pop("flags.speculative_config", None)
    if spec is not None:
        said["flags.num_speculative_tokens"] = spec["num_speculative_tokens"]
    found = in_plain_values(layer)
    if said.pop("parallel.ep", None):
        assert found.pop("parallel.ep") == -1  # over every rank
    at_default = {"parallel.tp": 1, "flags.enforce_eager": False}
    found = {key: value for key, value in found.items() if key in said or at_default.get(key) != value}
    assert found == said


def test_false_in_a_config_file_is_passed_over_and_told():
    _, warned, _ = read("--config", "x.yaml", config="model: m\nenable-prefix-caching: false\n")
    assert warned == ["bad-argument"]
    layer, warned, _ = read("--config", "x.yaml", config="model: m\nenable-prefix-caching: false\n", positional=False)
    assert layer["flags.enable_prefix_caching"] is False
    assert not warned


def test_an_argument_with_a_blank_in_it_does_not_start():
    layer, _, errors = read("m", "--max-model-len 8192")
    assert layer["context"] == 8192
    assert errors == ["bad-argument"]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("m", "--enable-lora", "--fully-sharded-loras"), "not-counted"),
        (("m", "--enable-lora", "--lora-dtype", "float32"), "not-counted"),
        (("m", "--mamba-cache-mode", "all"), "not-counted"),
        (("m", "--cpu-offload-gb", "10"), "not-counted"),
        (("m", "--quantization", "bitsandbytes"), "not-counted"),
        (("m", "--dtype", "float32"), "not-counted"),
        (
            ("m", "--speculative-config", '{"model": "d", "num_speculative_tokens": 3, "method": "medusa"}'),
            "not-counted",
        ),
        (
            ("m", "--speculative-config", '{"model": "d", "num_speculative_tokens": 3, "quantization": "fp8"}'),
            "not-counted",
        ),
        (("m", "--speculative-config", '{"model": "d", "num_speculative_tokens": 3, "method": "mtp"}'), "not-counted"),
        (("m", "--max-model-length", "8192"), "unknown-flag"),
        (("m", "--config=x.yaml"), "bad-argument"),
        (("m", "other"), "bad-argument"),
    ],
)
def test_what_a_plan_does_not_count_is_told(words: tuple[str, ...], rule: str):
    _, warned, errors = read(*words)
    assert (warned, errors) == ([rule], [])


@pytest.mark.parametrize(
    "words",
    [
        ("m", "--dtype", "auto", "--cpu-offload-gb", "0"),
        ("m", "--tool-call-parser", "hermes", "--enable-auto-tool-choice", "--port", "8000", "--api-key", "a", "b"),
        ("m", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'),
        ("m", "--swap-space", "4", "--disable-log-requests", "--uvicorn-log-level", "info", "--headless"),
        ("m", "--compilation-config", '{"cudagraph_mode": "FULL"}', "-O3"),
    ],
)
def test_what_does_not_touch_memory_is_silent(words: tuple[str, ...]):
    layer, warned, errors = read(*words)
    assert (layer, warned, errors) == ({"model": "m"}, [], [])


def test_what_is_said_of_the_checkpoint_is_kept_to_be_held_against_it():
    layer, warned, errors = read("m", "--dtype", "bfloat16", "--quantization", "awq")
    assert (layer, warned, errors) == ({"model": "m", "flags.dtype": "bfloat16", "flags.quantization": "awq"}, [], [])


def test_no_graphs_by_other_words():
    assert read("m", "-O0")[0]["flags.enforce_eager"] == "true"
    assert read("m", "--compilation-config", '{"cudagraph_mode": "NONE"}')[0]["flags.enforce_eager"] == "true"


def test_hidden_values_are_not_guessed():
    hidden = Word("$LEN", 2, "$LEN")
    nothing = lambda _: None  # noqa: E731
    with pytest.raises(CantRead, match=r"\$LEN"):
        read_arguments([Word("m", 1), Word("--max-model-len", 2), hidden], "f", nothing, positional=True)
    with pytest.raises(CantRead, match=r"its model is \$LEN"):
        read_arguments([hidden], "f", nothing, positional=True)
    found = read_arguments([Word("m", 1), Word("--api-key", 2), hidden], "f", nothing, positional=True)
    assert not found.remarks
    found = read_arguments([Word("m", 1), hidden], "f", nothing, positional=True)
    assert [(remark.rule, remark.place) for remark in found.remarks] == [("unread-arguments", Place("f", 2))]


def test_a_config_that_is_not_here():
    with pytest.raises(CantRead, match=r"x\.yaml is not here"):
        read("--config", "x.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu-memory-utilization", "90"), ("--gpu-memory-utilization=0",), ("--max-num-seqs", "0"), ("-tp", "two"),
        ("--max-model-len", "0"), ("--max-model-len", "8kk"), ("--max-model-len",), ("--max-model-len", "--enforce-eager"),
        ("--max-num-batched-tokens", "64", "--max-num-seqs", "128"),
        ("--quantization", "banana"), ("--dtype", "banana"), ("--enable-lora", "--max-lora-rank", "7"),
        ("--kv-cache-dtype", "bf16"), ("--kv-cache-dtype", "q8_0"), ("--enable-lora", "--max-loras", "0"),
        ("--spec-model", "d", "--spec-tokens", "0"), ("--spec-model", "d", "--spec-method", "eagle3"),
        ("--spec-model", "d", "--speculative-config", '{"model": "d", "num_speculative_tokens": 1}'),
        ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096", "--max-model-len", "8192"),
    ],
)  # fmt: skip
def test_what_vllm_refuses_is_an_error(words: tuple[str, ...]):
    _, warned, errors = read("m", *words)
    assert (warned, errors) == ([], ["bad-argument"])


def test_a_config_that_is_no_yaml_is_told_where_it_is_named():
    with pytest.raises(CantRead, match="can't be read") as caught:
        read("--config", "x.cfg", config="a: [")
    assert caught.value.place == Place("f", 2)
