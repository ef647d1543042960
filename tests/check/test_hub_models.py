"""Models of the Hub in a budget: the commit goes into the lock, a moved branch is seen, the cache serves offline runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hub_stand_in import COMMIT, HubStandIn

ROOT = Path(__file__).parents[2]
MOVED = "f" * 40
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "hidden_size": 512, "intermediate_size": 1024, "vocab_size": 1000,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
BUDGET = """\
kvplan-budget: 1
deployments:
  ours:
    model: org/ours
    gpu: l4
    limits: {kv_per_token: 4KiB}
"""


def kvplan(folder: Path, hub: HubStandIn, *words: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING", "KVPLAN"))}
    return subprocess.run(
        [sys.executable, "-m", "kvplan", "check", *words],
        capture_output=True, check=False, cwd=folder, text=True, timeout=60,
        env=inherited | {"PYTHONPATH": str(ROOT)} | hub.environment(folder / "cache"),
    )  # fmt: skip


def test_a_branch_that_moves(folder: Path):
    (folder / "kvplan-budget.yaml").write_text(BUDGET)
    with HubStandIn() as hub:
        hub.add("org/ours", {"config.json": json.dumps(CONFIG).encode()})
        done = kvplan(folder, hub, "--update")
        assert done.returncode == 0, done.stderr
        lock = json.loads((folder / "kvplan-budget.lock.json").read_text())["deployments"]["ours"]
        # 2 layers x (4 x 64 + 4 x 64) x 2 bytes
        assert (lock["revision"], lock["numbers"]["kv_per_token"]["ideal"]) == (COMMIT, 2048)
        asked = len(hub.requests)
        assert kvplan(folder, hub, "--offline", "--fail-on", "warn").returncode == 0
        assert len(hub.requests) == asked
        hub.add(
            "org/ours",
            {"config.json": json.dumps({**CONFIG, "num_hidden_layers": 8}).encode()},
            revisions={"main": MOVED},
        )
        done = kvplan(folder, hub, "--json")
        (result,) = json.loads(done.stdout)["results"]
        moved = {entry["name"]: (entry["before"], entry["after"]) for entry in result["moved"]}
        assert moved["revision"] == (COMMIT, MOVED)
        assert moved["kv_per_token"] == (2048, 8192)
        assert done.returncode == 1
        assert {row["shown"]["line"] for row in result["checks"] if row["status"] != "pass"} == {4}
        hub.add("org/ours", {}, trouble="unavailable")
        (folder / "kvplan-budget.yaml").write_text(BUDGET.replace("org/ours", "org/never-seen"))
        assert kvplan(folder, hub).returncode == 3
