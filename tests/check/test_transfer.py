"""KV connectors and KV events: in which releases they turn the hybrid KV cache manager off, and what that makes of the cache.

The table's truth is vLLM's config/vllm.py of each release, read by hand; numbers are of gpt-oss-20b: 24 layers, 8 heads of 64
for keys and for values, in 2 bytes, half of them with windows of 128 tokens.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check.checking import check

from kvplan.engines.vllm.tables.connectors import turns_off
from kvplan.engines.vllm.tables.versions import parse

WHOLE = 24 * 2 * 8 * 64 * 2
"""Bytes of a token where every layer keeps it."""

POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpt}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v%s
        args: [--model, openai/gpt-oss-20b, --max-model-len, "131072"%s]
        resources: {limits: {nvidia.com/gpu: 1}}
"""
LMCACHE = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'


def result(folder: Path, version: str, *words: str) -> dict:
    (folder / "pod.yaml").write_text(POD % (version, "".join(f", '{word}'" for word in words)))
    (found,) = check("pod.yaml", "--gpu", "h100", "--json").document["results"]
    return found


@pytest.mark.parametrize(
    ("version", "connectors", "events", "asked", "off"),
    [
        ("0.10.2", ["NixlConnector"], False, False, True),
        ("0.12.0", ["NixlConnector"], False, True, True),  # the switch came with 0.13
        ("0.13.0", ["NixlConnector"], False, True, False),
        ("0.21.0", ["NixlConnector"], False, False, True),
        ("0.22.0", ["NixlConnector"], False, False, False),
        ("0.22.0", ["LMCacheConnectorV1"], False, False, True),
        ("0.33.0", ["LMCacheConnectorV1"], False, False, True),
        ("0.33.0", ["LMCacheConnectorV1"], False, True, False),
        ("0.33.0", ["OffloadingConnector", "LMCacheConnectorV1"], False, False, True),
        ("0.33.0", ["OffloadingConnector", "NixlConnector"], False, False, False),
        ("0.24.0", ["MoRIIOConnector"], False, False, True),
        ("0.33.0", ["MoRIIOConnector"], False, False, False),
        ("0.11.0", [], True, False, True),
        ("0.19.0", [], True, False, True),
        ("0.20.0", [], True, False, False),
        ("0.33.0", [], False, False, False),
    ],
)
def test_by_release(version: str, connectors: list[str], events: bool, asked: bool, off: bool):
    assert turns_off(parse(version), connectors, events=events, asked=asked) is off


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.11.0", ["--kv-transfer-config", LMCACHE]),
        ("0.11.0", ["--kv-transfer-config", NIXL]),
        ("0.11.0", ["--kv-transfer-config.kv_connector", "NixlConnector"]),
        ("0.11.0", ["--kv-events-config", '{"enable_kv_cache_events":true}']),
        ("0.33.0", ["--kv-transfer-config", LMCACHE]),
        ("0.33.0", ["--disable-hybrid-kv-cache-manager"]),
    ],
)
def test_without_the_manager_every_layer_keeps_every_token(folder: Path, version: str, words: list[str]):
    found = result(folder, version, *words)
    assert (found["status"], found["numbers"]["kv_per_token"]["safe"]) == ("pass", WHOLE)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.33.0", ["--kv-transfer-config", NIXL]),
        ("0.33.0", ["--kv-events-config", '{"enable_kv_cache_events":true}']),
        ("0.33.0", ["--kv-transfer-config", LMCACHE, "--no-disable-hybrid-kv-cache-manager"]),
    ],
)
def test_with_it_windows_are_short(folder: Path, version: str, words: list[str]):
    found = result(folder, version, *words)
    assert (found["status"], found["numbers"]["kv_per_token"]["safe"] < WHOLE) == ("pass", True)


def test_a_connector_that_nobody_knows(folder: Path):
    found = result(
        folder, "0.33.0", "--kv-transfer-config", '{"kv_connector":"Ours","kv_connector_module_path":"our.code"}'
    )
    assert found["status"] == "warn"
    assert found["numbers"]["kv_per_token"]["safe"] == WHOLE
    assert any("Ours" in row["message"] for row in found["checks"])


def test_several_connectors_and_values_that_only_the_shell_knows(folder: Path):
    several = {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [
        {"kv_connector": "NixlConnector"}, {"kv_connector": "OffloadingConnector"}]}}  # fmt: skip
    assert (
        result(folder, "0.33.0", "--kv-transfer-config", json.dumps(several))["numbers"]["kv_per_token"]["safe"] < WHOLE
    )
    (folder / "run.sh").write_text(
        "vllm serve openai/gpt-oss-20b --max-model-len 131072 "
        '--kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_rank":\'$RANK\'}\'\n'
    )
    (found,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    assert found["numbers"]["kv_per_token"]["safe"] == WHOLE


def test_states_beside_attention_cannot_do_without_it(folder: Path):
    (folder / "run.sh").write_text(
        f"vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --max-model-len 8192 --kv-transfer-config '{LMCACHE}'\n"
    )
    (found,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    assert found["status"] == "error"
    assert "hybrid KV cache manager" in found["error"]["what"]


def test_a_connector_that_comes_is_what_moved_the_cache(folder: Path):
    (folder / "pod.yaml").write_text(POD % ("0.33.0", ""))
    (folder / "kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\ndeployments:\n  gpt: {from: pod.yaml, gpu: h100, limits: {kv_per_token: 40KiB}}\n"
    )
    assert check("--update").code == 0
    (folder / "pod.yaml").write_text(POD % ("0.33.0", f",\n          --kv-transfer-config, '{LMCACHE}'"))
    ran = check("--json")
    assert ran.code == 1
    rows = {row["rule"]: row["shown"] for row in ran.document["results"][0]["checks"] if row["status"] == "fail"}
    assert rows == {"kv-per-token": {"file": "pod.yaml", "line": 11}}


@pytest.mark.parametrize(
    ("version", "connector", "had"),
    [
        ("0.33.0", "PyNcclConnector", False),
        ("0.10.0", "PyNcclConnector", True),
        ("0.23.0", "P2pNcclConnector", True),
        ("0.24.0", "P2pNcclConnector", False),
        ("0.12.0", "MooncakeConnector", False),  # between the engine V0's and the engine V1's
        ("0.13.0", "MooncakeConnector", True),
    ],
)
def test_a_connector_that_the_release_has_not(folder: Path, version: str, connector: str, had: bool):
    rows = result(folder, version, "--kv-transfer-config", LMCACHE.replace("LMCacheConnectorV1", connector))["checks"]
    said = [row["message"] for row in rows if "has no KV connector" in row["message"]]
    assert said == ([] if had else [f"vLLM {version} has no KV connector {connector}"])


def test_a_connector_with_a_module_of_its_own_is_no_releases(folder: Path):
    own = '{"kv_connector":"PyNcclConnector","kv_connector_module_path":"ours","kv_role":"kv_both"}'
    rows = result(folder, "0.33.0", "--kv-transfer-config", own)["checks"]
    assert not any("has no KV connector" in row["message"] for row in rows)
