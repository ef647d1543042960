"""Public fault reports, each asked of kvplan: answered right or refused by name. docs/cases.md lists them with links.

A line of tests/data/cases.jsonl holds the question, the answer in words, and how it is checked: a config or a bundled
model with expected bytes, lengths and refusals, a command with what it must say, or a GPU with what it must show.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.arch.formats import KvFormat, parse_kv_format
from kvplan.arch.layers import Attention, Compressed, Latent
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel, Shard
from kvplan.cli import main
from kvplan.errors import CannotSplit, KvplanError
from kvplan.families import read
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

ROOT = Path(__file__).parents[2]
CASES = [
    json.loads(line) for line in (ROOT / "tests" / "data" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
]
MODELS = [case for case in CASES if ("config" in case or "model" in case) and "refused" not in case]


def named(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def model_of(case: dict[str, Any]) -> Model:
    return load_model(case["model"]) if "model" in case else read(case["config"], Origin(case["id"], case["url"]))


def kv_of(case: dict[str, Any], model: Model) -> KvFormat:
    return parse_kv_format(case["kv"]) if "kv" in case else KvFormat(model.dtype, model.dtype)


@named(MODELS)
def test_a_models_cache_is_the_size_its_report_says(case: dict[str, Any]) -> None:
    model = model_of(case)
    kv = kv_of(case, model)
    curve = model.curve(kv, Shard(case.get("tp", 1)), model.layers[: case.get("first_layers")])
    for tokens, expected in case.get("bytes", {}).items():
        assert curve.bytes_at(int(tokens)) == expected
    for tokens, expected in case.get("growing_bytes", {}).items():
        assert curve.bytes_at(int(tokens)) - curve.bytes_at(0) == expected
    for tokens, expected in case.get("growth", {}).items():
        assert curve.slope_at(int(tokens)) == expected
    if "total" in case:
        asked = case["total"]
        assert curve.bytes_at(asked["tokens"]) * asked["sequences"] == asked["bytes"]
    if "inverse" in case:
        tokens = curve.tokens_that_fit(2**30)
        assert curve.bytes_at(tokens) <= 2**30 < curve.bytes_at(tokens + 1)
    assert curve.fixed_bytes == case.get("fixed", curve.fixed_bytes)
    assert model.context.tokens == case.get("context", model.context.tokens)
    assert model.dtype.name == case.get("dtype", model.dtype.name)
    keeps = sum(any(isinstance(cache, Attention | Latent) for cache in layer.caches) for layer in model.layers)
    assert keeps == case.get("caching_layers", keeps)
    if "bytes_first" in case:
        rows = sum(cache.dim * 2 for layer in model.layers for cache in layer.caches if isinstance(cache, Compressed))
        assert rows == case["bytes_first"]
    if "bad_tp" in case:
        with pytest.raises(CannotSplit) as caught:
            model.check_split(Parallel(tp=case["bad_tp"]))
        assert case.get("works", "") in (caught.value.problem.hint or "")


@named([case for case in CASES if "refused" in case])
def test_a_config_without_an_answer_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(KvplanError, match=case["refused"]):
        read(case["config"], Origin(case["id"], case["url"]))


@named([case for case in CASES if "command" in case])
def test_a_command_prints_what_the_case_says(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(case["command"])
    printed = capsys.readouterr()
    if "exit" in case:
        assert code == case["exit"]
    else:
        assert code in (0, 1), printed.err
    assert case.get("says", "") in printed.out


@named([case for case in CASES if "gpu" in case])
def test_a_gpus_visible_memory_is_within_what_was_reported(case: dict[str, Any]) -> None:
    gpu = load_gpu(case["gpu"])
    low, high = case.get("gib", (0, 10**6))
    assert low <= gpu.memory.value / 2**30 <= high
    assert gpu.unified == case.get("unified", gpu.unified)


def test_every_case_is_checked_or_says_where(count_cases) -> None:
    keys = {"config", "model", "command", "gpu", "note"}
    assert all(keys & set(case) for case in CASES)
    count_cases("public fault reports", len(CASES))
