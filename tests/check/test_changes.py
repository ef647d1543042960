"""One flag changes: the exit code flips, the annotation stands on its line, and the lock or git says by how much."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from check.checking import annotations, check, edited

BUDGET = """\
kvplan-budget: 1
defaults:
  engine: vllm@0.33
  gpu: h100
deployments:
  chat:
    model: llama-3.1-70b
    parallel:
      tp: 4
    context: 16k
    kv_dtype: fp8
    flags:
      max_num_seqs: 256
      gpu_memory_utilization: 0.92
    limits:
      kv_per_token: 160KiB
      min_sequences: 50
      headroom: 20GiB
"""
FLAGS = {
    "max_model_len": ("context: 16k", "context: 64k", 10, "context", "min-sequences"),
    "tp": ("tp: 4", "tp: 2", 9, "parallel.tp", "starts"),
    "kv_dtype": ("kv_dtype: fp8", "kv_dtype: bf16", 11, "kv_dtype", "kv-per-token"),
    "max_num_seqs": ("max_num_seqs: 256", "max_num_seqs: 16", 13, "max_num_seqs", "min-sequences"),
    "utilization": ("utilization: 0.92", "utilization: 0.6", 14, "utilization", "headroom"),
}
LIMITS = {"kv-per-token": 16, "min-sequences": 17, "headroom": 18, "starts": 10}


@pytest.fixture
def budget(folder: Path) -> Path:
    path = folder / "kvplan-budget.yaml"
    path.write_text(BUDGET)
    return path


def git(*words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *words], capture_output=True, check=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(budget: Path) -> Path:
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    return budget


def errors(text: str) -> dict[str, int]:
    """The line of each error, by the start of its message."""
    return {message.partition(": ")[2]: line for command, _, line, message in annotations(text) if command == "error"}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_flips_the_answer_on_the_limits_line(budget: Path, flag: str):
    before, after, _, _, rule = FLAGS[flag]
    assert check("--format", "github").code == 0
    edited(budget, lambda text: text.replace(before, after))
    ran = check("--format", "github", "-o", "c.json")
    assert ran.code == 1
    rows = json.loads(Path("c.json").read_text())["results"][0]["checks"]
    broken = {row["rule"]: row["shown"]["line"] for row in rows if row["status"] == "fail"}
    assert broken[rule] == LIMITS[rule]
    assert sorted(errors(ran.out).values()) == sorted(broken.values())


@pytest.mark.parametrize("flag", FLAGS)
def test_with_a_lock_it_stands_on_the_flags_line(budget: Path, flag: str):
    before, after, line, name, rule = FLAGS[flag]
    assert check("--update").code == 0
    edited(budget, lambda text: text.replace(before, after))
    document = check("--json").document
    (result,) = document["results"]
    lines = {row["rule"]: row["shown"]["line"] for row in result["checks"] if row["status"] != "pass"}
    assert lines[rule] == line
    assert lines["lock-drift"] == line
    inputs = {
        moved["name"]: (moved["before"], moved["after"], moved["at"]["line"])
        for moved in result["moved"]
        if moved["kind"] == "input"
    }
    assert inputs[name][2] == line
    assert result["change"] == "changed"


@pytest.mark.parametrize("flag", FLAGS)
def test_with_git_too(repository: Path, flag: str):
    before, after, line, _, rule = FLAGS[flag]
    edited(repository, lambda text: text.replace(before, after))
    ran = check("--base", "main", "--json")
    assert ran.code == 1
    document = ran.document
    assert document["compared"][0]["revision"] == git("rev-parse", "main")
    (result,) = document["results"]
    assert {row["rule"]: row["shown"]["line"] for row in result["checks"] if row["status"] == "fail"}[rule] == line


def test_a_lock_has_every_number_and_is_quiet_while_nothing_moves(budget: Path, folder: Path):
    ran = check("--update")
    assert (ran.code, "Wrote kvplan-budget.lock.json." in ran.out) == (0, True)
    first = (folder / "kvplan-budget.lock.json").read_text()
    lock = json.loads(first)
    entry = lock["deployments"]["chat"]
    # 80 layers x (8 x 128 + 8 x 128) x 1 byte, and 16,384 tokens of it
    assert entry["numbers"]["kv_per_token"]["ideal"] == 163_840
    assert entry["numbers"]["kv_per_sequence"]["ideal"] == 163_840 * 16_384
    assert (entry["version"], entry["parallel"]["tp"], entry["context"], entry["kv_dtype"]) == (
        "0.33.0",
        4,
        16384,
        "fp8",
    )
    assert set(entry["numbers"]) == {
        "kv_per_token", "kv_per_sequence", "weights", "max_sequences", "max_context", "tpot", "gpus", "headroom", "kv_memory",
    }  # fmt: skip
    assert check("--fail-on", "warn").code == 0
    assert check("--update").code == 0
    assert (folder / "kvplan-budget.lock.json").read_text() == first


def test_drift_warns_and_update_accepts_it(budget: Path):
    check("--update")
    edited(budget, lambda text: text.replace("vllm@0.33", "vllm@0.19"))
    ran = check("--json")
    assert ran.code == 0
    (result,) = ran.document["results"]
    assert result["status"] == "warn"
    moved = {entry["name"]: entry for entry in result["moved"]}
    assert (moved["engine version"]["before"], moved["engine version"]["after"]) == ("0.33.0", "0.19.0")
    assert moved["engine version"]["at"] == {"file": "kvplan-budget.yaml", "line": 3}
    assert check("--fail-on", "warn").code == 1
    assert check("--update").code == 0
    assert check("--fail-on", "warn").code == 0


def test_deployments_come_and_go(budget: Path):
    check("--update")
    edited(budget, lambda text: text + "  new:\n    model: llama-3-8b\n    context: 8k\n")
    document = check("--json").document
    assert [result["change"] for result in document["results"]] == ["same", "added"]
    assert document["results"][1]["checks"][-1]["message"].startswith("is not in kvplan-budget.lock.json")
    budget.write_text(BUDGET.replace("chat:", "talk:"))
    ran = check("--json", "--fail-on", "warn")
    assert ran.code == 1
    assert ran.document["compared"][0]["removed"] == ["chat"]


def test_a_model_that_changes_under_its_name_is_seen(budget: Path, folder: Path):
    model = "kvplan: 1\nname: ours\nlayers: 32\nkv_heads: 8\nhead_dim: 128\nparameters: 8000000000\nmax_context: 32k\n"
    (folder / "ours.yaml").write_text(model)
    edited(budget, lambda text: text.replace("llama-3.1-70b", "./ours.yaml"))
    assert check("--update").code == 0
    edited(folder / "ours.yaml", lambda text: text.replace("layers: 32", "layers: 30"))
    (result,) = check("--json").document["results"]
    moved = {entry["name"]: entry for entry in result["moved"]}
    assert moved["revision"]["before"].startswith("sha256:")
    assert moved["revision"]["at"]["line"] == 7
    assert "kv_per_token" in moved
    assert str(folder) not in (folder / "kvplan-budget.lock.json").read_text()


def test_a_lock_is_written_whole_or_not_at_all(budget: Path, folder: Path):
    edited(budget, lambda text: text + "  lost:\n    model: no-such-model\n")
    ran = check("--update")
    assert ran.code == 2
    assert "the lock was not written: lost" in ran.err
    assert not (folder / "kvplan-budget.lock.json").exists()


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "kvplan.lock/1", "deployments": {"chat": {}}}', "[1"])
def test_a_damaged_lock_says_how_to_mend_it(budget: Path, folder: Path, text: str):
    (folder / "kvplan-budget.lock.json").write_text(text)
    ran = check()
    assert ran.code == 2
    assert "kvplan-budget.lock.json" in ran.err
    assert check("--update").code == 0
    assert check().code == 0


def test_base_reads_manifests_and_models_of_that_revision(folder: Path, repository: Path):
    (folder / "deploy").mkdir()
    (folder / "deploy" / "run.sh").write_text("vllm serve ../models/ours --max-model-len 4096\n")
    (folder / "models" / "ours").mkdir(parents=True)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 16, "hidden_size": 2048,
              "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 32000,
              "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}  # fmt: skip
    (folder / "models" / "ours" / "config.json").write_text(json.dumps(config))
    repository.write_text("kvplan-budget: 1\ndeployments:\n  web: {from: deploy/run.sh, gpu: l4}\n")
    git("add", "-A")
    git("commit", "-q", "-m", "second")
    assert check("--base", "HEAD", "--json").document["results"][0]["change"] == "same"
    (folder / "models" / "ours" / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 8}))
    edited(folder / "deploy" / "run.sh", lambda text: text.replace("4096", "8192"))
    (result,) = check("--base", "HEAD", "--json").document["results"]
    moved = {entry["name"]: (entry["before"], entry["after"]) for entry in result["moved"]}
    assert moved["context"] == (4096, 8192)
    # 16 layers x 2 x 8 x 64 x 2 bytes, then 8 of them
    assert moved["kv_per_token"] == (32_768, 16_384)
    assert check("--base", "HEAD~1", "--json").document["compared"][0]["removed"] == ["chat"]


def test_base_where_the_budget_did_not_exist(folder: Path, repository: Path):
    git("mv", "kvplan-budget.yaml", "other.yaml")
    document = check("other.yaml", "--base", "main", "--json").document
    assert document["compared"][0]["note"] == "other.yaml isn't there"
    assert document["results"][0]["change"] == "added"


@pytest.mark.parametrize(
    "ref", ["nowhere", "--output=x", "-x", "main..HEAD", "", "main:kvplan-budget.yaml", "$(touch x)"]
)
def test_references_that_are_none(repository: Path, folder: Path, ref: str):
    before = sorted(path.name for path in folder.iterdir())
    ran = check(f"--base={ref}")
    assert ran.code == 2
    assert "git has no revision" in ran.err
    assert sorted(path.name for path in folder.iterdir()) == before


def test_base_without_a_repository(budget: Path, monkeypatch: pytest.MonkeyPatch, folder: Path):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent))
    ran = check("--base", "main")
    assert ran.code == 2
    assert "git can't read this repository" in ran.err


def test_base_runs_nothing_and_writes_nothing(folder: Path, repository: Path):
    """Filters, text converters, hooks and links of a repository that somebody else may have prepared."""
    (folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (folder / "evil.sh").write_text("#!/bin/sh\ntouch RAN\n")
    (folder / "evil.sh").chmod(0o755)
    (folder / "out.yaml").symlink_to("/etc/passwd")
    git("add", "-A")
    git("commit", "-q", "-m", "prepared")
    for key in ("filter.evil.smudge", "diff.evil.textconv", "core.fsmonitor", "core.pager"):
        git("config", key, str(folder / "evil.sh"))
    (folder / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\ntouch RAN\n")
    (folder / ".git" / "hooks" / "post-checkout").chmod(0o755)
    before = sorted(str(path) for path in folder.rglob("*"))
    assert check("--base", "HEAD").code == 0
    assert sorted(str(path) for path in folder.rglob("*")) == before
    edited(repository, lambda text: text.replace("llama-3.1-70b", "./out.yaml"))
    assert check("--base", "HEAD").code == 2
