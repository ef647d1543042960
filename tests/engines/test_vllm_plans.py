"""vLLM 0.33's own planner, asked without a GPU, gave these rows; kvplan gives the same blocks, tokens and refusals."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from engines.vllm_rows import difference

from kvplan.arch.model import Model, Origin
from kvplan.families import read

DATA = Path(__file__).parents[1] / "data"
SAMPLE = json.loads((DATA / "vllm-plans-sample.json").read_text())


@cache
def sampled(name: str) -> Model:
    return read(SAMPLE["configs"][name], Origin(name, name))


@pytest.mark.parametrize("config", sorted(SAMPLE["configs"]))
def test_the_sampled_plans_are_equal_to_the_block(config):
    differences = [
        (row["tp"], row["kv_cache_dtype"], row["flags"], found)
        for row in SAMPLE["rows"]
        if row["config"] == config and (found := difference(sampled(config), row))
    ]
    assert differences == []


def test_every_row_of_the_corpus(corpus, count_cases):
    rows = [json.loads(line) for line in (corpus / "vllm-plans.jsonl").read_text().splitlines()]
    _check(rows, lambda row: corpus / "configs" / row["file"], "vllm plans", count_cases)


def test_every_shape_of_the_corpus(corpus, count_cases):
    with (corpus / "vllm-shapes.csv").open() as table:
        rows = [_typed(row) for row in csv.DictReader(table)]
    _check(rows, lambda row: corpus / "shapes" / f"{row['model']}.json", "vllm shapes", count_cases)


def test_plans_with_other_gpus_formats_and_flags_are_equal(corpus, count_cases):
    """Other GPUs, block sizes, formats, drafted tokens: the third set of docs/accuracy-method.md."""
    rows = [json.loads(line) for line in (DATA / "vllm-extra-plans.jsonl").read_text().splitlines()]
    known = [row for row in rows if not _expected_to_differ(row)]
    assert len(known) >= 400
    _check(known, lambda row: corpus / _folder(row["file"]), "vllm plans, other options", count_cases)


def test_plans_with_kernels_that_were_asked_for_are_equal(corpus, count_cases):
    rows = [json.loads(line) for line in (DATA / "vllm-asked-kernels.jsonl").read_text().splitlines()]
    _check(rows, lambda row: corpus / _folder(row["file"]), "vllm plans, kernels asked for", count_cases)


def test_plans_on_amds_gpus_are_equal(corpus, count_cases):
    rows = [json.loads(line) for line in (DATA / "vllm-rocm-plans.jsonl").read_text().splitlines()]
    _check(rows, lambda row: corpus / _folder(row["file"]), "vllm plans, AMD", count_cases)


def _folder(file: str) -> str:
    return file if file.startswith("shapes/") else f"configs/{file}"


UNASKED = ("mamba_ssm_cache_dtype", "mamba_cache_dtype", "mamba_block_size", "mamba_cache_mode")
"""Flags that kvplan hasn't."""


def _expected_to_differ(row: dict[str, Any]) -> bool:
    """A TypeError isn't an answer."""
    flags = row["flags"]
    unasked = any(name in flags for name in UNASKED) or (flags.get("spec") or {}).get("method") == "ngram"
    unanswered = row.get("error", "").startswith("TypeError")
    return unasked or unanswered


def _check(rows, path, name, count_cases) -> None:
    models: dict[Path, Model] = {}
    differences = []
    for row in rows:
        file = path(row)
        if file not in models:
            models[file] = read(json.loads(file.read_text()), Origin(file.stem, str(file)))
        if found := difference(models[file], row):
            differences.append(
                (file.name, row["gpu"], row["tp"], row["pp"], row["kv_cache_dtype"], row["flags"], found)
            )
    count_cases(name, len(rows))
    assert differences == []


def _typed(row: dict[str, str]) -> dict[str, Any]:
    whole = ("tp", "available_bytes", "max_model_len", "num_blocks", "kv_tokens")
    return {
        **{key: int(row[key] or 0) for key in whole},
        "model": row["model"], "gpu": "h100", "pp": 1, "kv_cache_dtype": row["kv_dtype"], "flags": {},
        "error": row["error"], "max_concurrency": float(row["max_concurrency"] or 0),
    }  # fmt: skip
