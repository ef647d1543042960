"""Headers by range requests from a stand-in for the Hub: a terabyte costs megabytes."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from weights.range_server import RangeServer

ROOT = Path(__file__).parents[2]
ASK = """
import json, sys
from kvplan.errors import KvplanError
from kvplan.sources.checkpoints.headers import hub_headers
steps = []
try:
    found = hub_headers(sys.argv[1], progress=lambda done, total: steps.append((done, total)))
    answer = None if found is None else {"bytes": found.bytes, "files": found.files, "tensors": len(found.tensors), "read": found.read}
except KvplanError as error:
    answer = {"error": type(error).__name__, "cause": error.problem.cause}
print(json.dumps({"answer": answer, "steps": steps}))
"""


def header(tensors: int, each: int, name: str = "w") -> bytes:
    """A header of BF16 vectors of `each` elements, one after the other."""
    entries = {
        f"model.layers.{number}.mlp.{name}.weight": {"dtype": "BF16", "shape": [each], "data_offsets": [number * 2 * each, (number + 1) * 2 * each]}
        for number in range(tensors)
    }  # fmt: skip
    raw = json.dumps(entries).encode()
    return struct.pack("<Q", len(raw)) + raw


def sized(raw: bytes, tensors: int, each: int) -> tuple[bytes, int]:
    return raw, len(raw) + 2 * tensors * each


def ask(hub: RangeServer, repo: str, cache: Path) -> dict:
    environment = os.environ | {
        "HF_ENDPOINT": hub.url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", "HF_TOKEN": "", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", ASK, repo],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def shards() -> dict[str, tuple[bytes, int]]:
    """160 files that claim 1.3 TB together."""
    each = 2**28
    names = [f"model-{number:05d}-of-00160.safetensors" for number in range(1, 161)]
    files = {name: sized(header(16, each, f"part{number}"), 16, each) for number, name in enumerate(names)}
    index = {
        "weight_map": {
            f"model.layers.{layer}.mlp.part{number}.weight": name
            for number, name in enumerate(names)
            for layer in range(16)
        }
    }
    raw = json.dumps(index).encode()
    return {**files, "model.safetensors.index.json": (raw, len(raw)), "config.json": (b"{}", 2)}


def test_a_terabyte_costs_megabytes(shards, tmp_path):
    with RangeServer({"org/huge": shards}) as hub:
        found = ask(hub, "org/huge", tmp_path)
        assert found["answer"]["bytes"] == 160 * 16 * 2**28 * 2
        assert found["answer"]["bytes"] > 10**12
        assert (found["answer"]["files"], found["answer"]["tensors"]) == (160, 160 * 16)
        assert hub.sent < 20 * 10**6  # 160 first ranges of 100 kB, and an index
        assert hub.ranges == 160
    assert found["steps"] == [[done, 160] for done in range(1, 161)]


def test_a_header_longer_than_the_first_range_is_asked_for_whole(tmp_path):
    raw = header(2_000, 8)
    assert len(raw) > 100_001
    with RangeServer({"org/long": {"model.safetensors": sized(raw, 2_000, 8)}}) as hub:
        found = ask(hub, "org/long", tmp_path)
        assert found["answer"]["bytes"] == 2_000 * 8 * 2
        assert hub.ranges == 2


def test_a_repository_without_safetensors_has_no_headers(tmp_path):
    with RangeServer({"org/none": {"config.json": (b"{}", 2)}}) as hub:
        assert ask(hub, "org/none", tmp_path)["answer"] is None


def test_a_header_that_claims_more_than_it_may_is_refused(tmp_path):
    lie = struct.pack("<Q", 2**60) + b"{}"
    with RangeServer({"org/lie": {"model.safetensors": (lie, 10**12)}}) as hub:
        found = ask(hub, "org/lie", tmp_path)
        assert "error" in found["answer"]
        assert hub.sent < 10**6


def test_a_tensor_that_contradicts_itself_is_refused(tmp_path):
    raw = json.dumps({"w": {"dtype": "BF16", "shape": [2**40], "data_offsets": [0, 4]}}).encode()
    with RangeServer({"org/odd": {"model.safetensors": (struct.pack("<Q", len(raw)) + raw, 10**6)}}) as hub:
        assert ask(hub, "org/odd", tmp_path)["answer"]["error"] == "BadFile"


def test_a_hub_that_asks_to_come_again_is_asked_again(tmp_path):
    with RangeServer({"org/busy": {"model.safetensors": sized(header(4, 8), 4, 8)}}) as hub:
        hub.busy = 3
        assert ask(hub, "org/busy", tmp_path)["answer"]["bytes"] == 4 * 8 * 2
        assert hub.ranges == 4


def test_a_hub_that_never_has_time_is_given_up(tmp_path):
    with RangeServer({"org/busy": {"model.safetensors": sized(header(4, 8), 4, 8)}}) as hub:
        hub.busy = 100
        assert ask(hub, "org/busy", tmp_path)["answer"] == {"error": "Unreachable", "cause": "it answered 429"}
        assert hub.ranges == 4
