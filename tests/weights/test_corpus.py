"""Weights against every config, plan and log of a corpus: `pytest --corpus DIR`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

from fullest import fullest
from weights.conftest import described

from bench.accuracy.rows import Row, read_rows
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import FP32
from kvplan.engines.vllm.layout.views import view_of
from kvplan.engines.vllm.tables.versions import NEWEST
from kvplan.families import read
from kvplan.sources.bundled import bundled_document
from kvplan.units import GIB

PERCENT = 0.01

# Checkpoints that logs name, whose own configs the corpus has under another name.
CHECKPOINTS = {
    "gemma4-31b-it-nvfp4": "nvidia__Gemma-4-31B-IT-NVFP4.json",
    "minimax-m3 (NVFP4)": "nvidia__MiniMax-M3-NVFP4.json",
    "RedHatAI/Llama-4-Maverick-17B-128E-Instruct-FP8": "meta-llama__Llama-4-Maverick-17B-128E-Instruct-FP8.json",
}
QUANTIZED_BESIDE = {"nvidia/DeepSeek-V3.2-NVFP4": ("deepseek-v3.2", "nvidia__DeepSeek-V3.2-NVFP4.hf_quant_config.json")}
# Logs that don't say what was loaded: no ranks, or a model inferred from its cache.
UNSTATED = {"gemma4-e4b-32k", "unsloth-qwen25-05b"}


def test_parameters_of_configs(corpus, count_cases):
    rows = _parameters(corpus)
    exact, silent = 0, {}
    for name, expected in rows.items():
        weights = described(_config(corpus / "configs" / name)).weights
        exact += weights.total == expected
        if abs(weights.total / expected - 1) > 0.005 and weights.exact:
            silent[name] = weights.total, expected
    count_cases("parameters of configs", len(rows))
    assert silent == {}
    assert exact >= 0.95 * len(rows)


def _parameters(corpus: Path) -> dict[str, int]:
    with (corpus / "configs-parameters.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row["file"]: int(row["transformers_meta_params"]) for row in rows if row["transformers_meta_params"]}


def test_bytes_of_vllm_s_plans(corpus, count_cases):
    errors = []
    for path, parallel, expected in _plans(corpus):
        model = _model(path)
        errors.append(abs(fullest(model.weights, parallel, view_of(model)) / expected - 1))
    count_cases("vLLM's weights on the fullest GPU", len(errors))
    assert _share(errors, PERCENT) >= 0.95
    assert _share(errors, 0.2 * PERCENT) >= 0.95


def _plans(corpus: Path) -> Iterator[tuple[Path, Parallel, int]]:
    """Config, ranks and vLLM's bytes; a plan's cache format makes no difference to its weights."""
    seen: dict[tuple[Path, Parallel], int] = {}
    for line in (corpus / "vllm-plans.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row.get("weight_bytes_per_rank"):
            key = (corpus / "configs" / row["file"], Parallel(tp=row["tp"], pp=row["pp"]))
            seen.setdefault(key, max(row["weight_bytes_per_rank"]))
    with (corpus / "vllm-shapes.csv").open() as file:
        for row in csv.DictReader(file):
            if row["weight_bytes_per_rank"]:
                key = (corpus / "shapes" / f"{row['model']}.json", Parallel(tp=int(row["tp"])))
                seen.setdefault(key, int(row["weight_bytes_per_rank"].split("|")[0]))
    return ((path, parallel, size) for (path, parallel), size in seen.items())


def test_weights_that_logs_print(corpus, count_cases):
    errors = {row.id: error for row in _logs(corpus) if (error := _error(row, corpus)) is not None}
    found = [abs(error) for error in errors.values()]
    same = [abs(error) for name, error in errors.items() if EXPLAINED.get(name) not in OTHER]
    count_cases("weights printed in logs", len(found))
    assert median(found) <= 0.2 * PERCENT
    assert _share(found, 3 * PERCENT) >= 0.9
    assert {name for name, error in errors.items() if abs(error) > 3 * PERCENT} == EXPLAINED.keys()
    assert _share(same, 3 * PERCENT) >= 0.9


# Why a log prints something else; docs/weights.md says more.
UNKNOWN, RANKS = "a checkpoint without a public config", "ranks split otherwise"
OTHER = {UNKNOWN, RANKS}
EXPLAINED = {
    "vllm-6746": UNKNOWN,
    "thor-qwen35-122b": UNKNOWN,
    "thor-qwen35-122b-resharded": UNKNOWN,
    "h100x8-mimo26": UNKNOWN,
    "minimax-m3-tp4": UNKNOWN,
    "qwen3-235b-l40s": RANKS,
    "sgl-qwen3-32b-tp2cp2": RANKS,
    "vme-b656e363": "half of it as on the H200, half AMD's",
    "dscoderv2lite-tp8": "vLLM of early 2025 kept absorbed copies of MLA's projections",
    "inferencex-2128": "SGLang's own layout of four-bit experts",
}


def _logs(corpus: Path) -> list[Row]:
    return [
        row
        for engine in ("vllm", "sglang")
        for row in read_rows(corpus / "engine-logs.jsonl", corpus / "configs", engine)
        if row.reported.get("weights_gib") and row.id not in UNSTATED
    ]


def _error(row: Row, corpus: Path) -> float | None:
    """By how much kvplan's bytes are off what the log prints; None if it names no model that is known."""
    name = row.raw.get("model_id") or ""
    if name in CHECKPOINTS:
        model: Model | None = _model(corpus / "configs" / CHECKPOINTS[name])
    elif name in QUANTIZED_BESIDE:
        base, beside = QUANTIZED_BESIDE[name]
        config = {key: value for key, value in bundled_document(base).config.items() if key != "quantization_config"}
        model = read(config, Origin(name, name), {"hf_quant_config.json": _config(corpus / "hf_quant" / beside)})
    else:
        model = row.model
    if model is None or model.weights is None:
        return None
    weights, view = model.weights, view_of(model, row.gpu, row.version or NEWEST)
    if row.raw.get("model_dtype") == "float32":
        weights = weights.stored_as(FP32)
    if (row.raw.get("flags") or {}).get("language_model_only"):
        weights = replace(weights, towers=())
    size = fullest(weights, row.parallel, view)
    if row.options.speculative_tokens:
        size += weights.draft_bytes_on_rank(row.parallel, view)
    return size / GIB / row.reported["weights_gib"] - 1


def test_every_config_is_counted_or_named(corpus, count_cases):
    """Bytes and reads are there for every config, and rise with the batch."""
    configs = sorted((corpus / "configs").glob("*.json"))
    counted = 0
    for path in configs:
        weights = _model(path).weights
        if weights is None:
            continue
        counted += 1
        reads = weights.read_bytes(1)
        assert 0 < reads.low <= reads.likely <= reads.high, path.name
        assert weights.read_bytes(64).likely >= reads.likely, path.name
        assert 0 < weights.active <= weights.total, path.name
    count_cases("configs with weights", counted)
    assert counted >= 0.95 * len(configs)


@cache
def _model(path: Path) -> Model:
    return described(_config(path), path.stem)


def _config(path: Path) -> dict:
    return json.loads(path.read_text())


def _share(errors: list[float], most: float) -> float:
    return sum(error <= most for error in errors) / len(errors)
