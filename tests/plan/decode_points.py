"""Public measured decode steps as requests that kvplan can time: which point is which model, GPU, format and batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Storage
from kvplan.engines.ideal import Ideal
from kvplan.errors import KvplanError
from kvplan.plan.request import Request
from kvplan.sources.bundled import name_of
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

GPUS = {
    "GB10 (DGX Spark)": "dgx-spark", "A100-80GB": "a100-sxm-80", "A100-80GB (330W limit)": "a100-sxm-80",
    "A100-PCIe-80GB": "a100-pcie-80", "A100-SXM4-80GB": "a100-sxm-80", "A100": "a100-sxm-80", "H20-96GB": "h20",
    "MI300X": "mi300x", "MI325X": "mi325x", "MI350X": "mi350x", "MI355X": "mi355x", "4090 24GB": "rtx-4090",
    "RTX 4090": "rtx-4090", "3090 24GB": "rtx-3090", "RTX A6000 48GB": "rtx-a6000", "RTX 6000 Ada 48GB": "rtx-6000-ada",
    "RTX PRO 6000 Blackwell Server": "rtx-pro-6000-server", "4080 16GB": "rtx-4080", "A40 48GB": "a40", "A10G": "a10g",
    "L40S 48GB": "l40s", "L40S": "l40s", "H100-SXM-80GB": "h100", "H100": "h100", "H100-PCIe-80GB": "h100-pcie",
    "H200-SXM-141GB": "h200", "H200": "h200", "B200-SXM-180GB": "b200", "B200": "b200", "B300": "b300",
    "GB200": "gb200", "GB200 192GB": "gb200",
}  # fmt: skip

ALSO_CALLED = {
    "/models/DeepSeek-R1": "deepseek-r1", "nvidia/DeepSeek-R1-FP4": "deepseek-r1", "Qwen/Qwen2.5-14B-Instruct": "qwen2.5-14b",
    "Qwen/Qwen2.5-32B-Instruct": "qwen2.5-32b", "ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF": "qwen2.5-7b",
    "meta-llama/Llama-2-7b": "llama-2-7b", "meta-llama/Llama-2-13b": "llama-2-13b", "meta-llama/Llama-2-70b": "llama-2-70b",
    "codellama/CodeLlama-34b": "codellama-34b", "llama-2-7b.Q4_0": "llama-2-7b",
}  # fmt: skip

STORED = {
    "bf16": Storage("bf16", 16), "bfloat16": Storage("bf16", 16), "fp16": Storage("fp16", 16),
    "gguf f16": Storage("fp16", 16), "fp8": Storage("fp8", 8), "gptq-int8": Storage("int8", 8, row_bits=16),
    "int8-wo": Storage("int8", 8, row_bits=16), "gguf q8_0": Storage("q8_0", 8, group=32, group_bits=16),
    "gguf q4_0": Storage("q4_0", 4, group=32, group_bits=16), "gguf q4_k_m": Storage("q4_k_m", 4, group=32, group_bits=27),
    "gptq-int4": Storage("int4", 4, group=128, group_bits=20), "awq": Storage("int4", 4, group=128, group_bits=20),
    "awq-int4": Storage("int4", 4, group=128, group_bits=20), "nvfp4": Storage("nvfp4", 4, group=16, group_bits=8),
    "fp4": Storage("nvfp4", 4, group=16, group_bits=8),
}  # fmt: skip

STEP = ("tokens_per_s_user", "tpot_ms", "tokens_per_s_total")
NOT_A_STEP = ("x_spec", "x_disagg", "x_includes_prefill", "x_suspicious", "x_ambiguous", "x_dpattn")


class Point(NamedTuple):
    """A measured step: its row, the same question to kvplan, sequences at once, seconds."""

    row: dict[str, Any]
    request: Request
    batch: int
    seconds: float


def points(corpus: Path) -> Iterator[Point]:
    """Every row that says enough: a bundled model, a known GPU and format, batch and tensor parallel size."""
    for line in (corpus / "decode-points.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["metric"] not in STEP or "prefill" in row["kind"] or any(row.get(flag) for flag in NOT_A_STEP):
            continue
        point = _point(row)
        if point is not None:
            yield point


def _point(row: dict[str, Any]) -> Point | None:
    model_id = row.get("model_id") or ""
    name, gpu = name_of(model_id) or ALSO_CALLED.get(model_id), GPUS.get(row["gpu"])
    batch = row.get("batch") or (1 if row["kind"].startswith("decode_b1") else None)
    by_layers = row["source"] == "XiongjieDai"  # llama.cpp deals layers over its GPUs, not tensors
    tp = row.get("tp") or (1 if row.get("gpu_count") == 1 or by_layers else None)
    pp = row.get("gpu_count") if by_layers else row.get("pp")
    stored = (row.get("weight_dtype") or "").lower()
    own = "gpt-oss" in (name or "")  # published in MXFP4; other files quantize what it keeps in 16 bit
    if name is None or gpu is None or not batch or not tp or (stored and stored not in STORED) or (own and stored):
        return None
    try:
        model = load_model(name, offline=True)
        kv = parse_kv_format(row["kv_dtype"]) if row.get("kv_dtype") not in {None, "auto"} else None
    except KvplanError:
        return None
    if model.weights is None or not model.weights.exact:
        return None
    if stored:
        model = replace(model, weights=model.weights.stored_as(STORED[stored]))
    context = row.get("context_tokens") or (row.get("input_len") or 0) + (row.get("output_len") or 0) // 2 or 128
    request = Request(model, load_gpu(gpu), Ideal(), int(context), Parallel(tp=tp, pp=pp or 1), kv)
    return Point(row, request, int(batch), _seconds(row, batch))


def _seconds(row: dict[str, Any], batch: int) -> float:
    value: float = row["value"]
    return {"tokens_per_s_user": 1 / value, "tpot_ms": value / 1e3, "tokens_per_s_total": batch / value}[row["metric"]]
