"""500 different deployments in under 3 seconds of one core, everything included."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODELS = ("llama-3-70b", "llama-3-8b", "gemma-3-27b", "gpt-oss-120b", "qwen3-30b-a3b")
GPUS = ("h100", "h200", "a100-80gb", "b200", "l40s")


def test_500_deployments(folder: Path):
    lines = [
        "kvplan-budget: 1",
        "defaults: {engine: vllm, limits: {headroom: 1%, starts: {level: warn}}}",
        "deployments:",
    ]
    points = product(MODELS, GPUS, (1, 2, 4, 8), (4096, 8192, 16384, 32768, 65536))
    for number, (model, gpu, tp, context) in enumerate(points):
        lines.append(f"  d{number}: {{model: {model}, gpu: {gpu}, parallel: {{tp: {tp}}}, context: {context},")
        lines.append("    limits: {kv_per_token: 1MiB, min_sequences: 1}}")
    (folder / "kvplan-budget.yaml").write_text("\n".join(lines))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "kvplan", "check", "--json", "--offline"],
        capture_output=True, check=False, cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": ""}, text=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in {0, 1}, done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert (summary["deployments"], summary["unanswered"]) == (500, 0)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 3, f"{spent:.1f} s"
