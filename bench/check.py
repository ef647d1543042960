"""CPU seconds of `kvplan check` for 500 different deployments, in one process, start-up included.

    python bench/check.py [--rounds 3]

It only measures and never fails. A CI step may take 3 s of one core.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("llama-3-70b", "llama-3-8b", "gemma-3-27b", "gpt-oss-120b", "qwen3-30b-a3b")
GPUS = ("h100", "h200", "a100-80gb", "b200", "l40s")
POINTS = tuple(product(MODELS, GPUS, (1, 2, 4, 8), (4096, 8192, 16384, 32768, 65536)))


def budget() -> str:
    """A budget file with one deployment per point."""
    lines = [
        "kvplan-budget: 1",
        "defaults: {engine: vllm, limits: {headroom: 1%, starts: {level: warn}}}",
        "deployments:",
    ]
    for number, (model, gpu, tp, context) in enumerate(POINTS):
        lines.append(f"  d{number}: {{model: {model}, gpu: {gpu}, parallel: {{tp: {tp}}}, context: {context},")
        lines.append("    limits: {kv_per_token: 1MiB, min_sequences: 1}}")
    return "\n".join(lines)


def seconds(folder: Path) -> float:
    """User and system seconds of one check.

    Raises: SystemExit if a deployment has no answer.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "kvplan", "check", "--json", "--offline"],
        capture_output=True, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in {0, 1}:
        raise SystemExit(done.stderr)
    summary = json.loads(done.stdout)["summary"]
    if (summary["deployments"], summary["unanswered"]) != (len(POINTS), 0):
        raise SystemExit(f"not all were answered: {summary}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kvplan-budget.yaml").write_text(budget(), encoding="utf-8")
        spent = [seconds(Path(folder)) for _ in range(rounds)]
    print(f"{len(POINTS)} deployments: median {statistics.median(spent):.2f} s of CPU, fastest {min(spent):.2f} s")


if __name__ == "__main__":
    main()
