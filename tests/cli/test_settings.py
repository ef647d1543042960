"""flag > KVPLAN_* > ./kvplan.toml > [tool.kvplan] > the user's file > default."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import run

SIZE = ("size", "llama-3-70b", "--ctx", "8k", "--json")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty folder and an empty home."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))


def tp(*words: str) -> int:
    result = run(*SIZE, *words)
    assert result.code == 0, result.err
    found: int = result.document["parallel"]["tp"]
    return found


def test_the_nearest_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert tp() == 1
    user = tmp_path / "home" / "kvplan"
    user.mkdir(parents=True)
    (user / "config.toml").write_text("tp = 2\nkv-dtype = 'fp8'\n")
    assert tp() == 2
    Path("pyproject.toml").write_text("[tool.kvplan]\ntp = 4\n")
    assert tp() == 4
    Path("kvplan.toml").write_text("tp = 8\n[fit]\ntp = 64\n")
    assert tp() == 8
    Path("kvplan.toml").write_text("tp = 8\n[size]\ntp = 16\n")
    assert tp() == 16
    monkeypatch.setenv("KVPLAN_TP", "32")
    assert tp() == 32
    assert tp("--tp", "64") == 64
    assert run(*SIZE).document["kv_dtype"]["k"] == "fp8"
    monkeypatch.delenv("KVPLAN_TP")
    assert tp("--no-config") == 1


def test_one_file_instead(tmp_path: Path):
    Path("kvplan.toml").write_text("tp = 8\n")
    other = tmp_path / "other.toml"
    other.write_text("ctx = ['4k', '8k']\ntp = 2\n")
    assert tp("--config", str(other)) == 2
    assert len(run("size", "llama-3-70b", "--json", "--config", str(other)).document["sequences"]) == 2


def test_settings_of_other_commands_are_no_matter():
    Path("kvplan.toml").write_text("gpu = 'h100'\nutilization = 0.8\n")
    assert tp() == 1


def test_a_switch_in_the_environment_is_1_or_0(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KVPLAN_JSON", "1")
    assert run("size", "llama-3-8b").document["schema"] == "kvplan.size/1"
    monkeypatch.setenv("KVPLAN_JSON", "0")
    assert run("size", "llama-3-8b").out.startswith("llama-3-8b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tpp = 8", "did you mean tp?"),
        ("[sise]\ntp = 8", "did you mean size?"),
        ("[size]\ngpus = 8", "no setting 'gpus'"),
        ("tp = 'eight'", "kvplan.toml: 'eight' is not a whole number"),
        ("tp = ", "kvplan.toml is not TOML"),
    ],
)
def test_mistakes_are_named(text: str, said: str):
    Path("kvplan.toml").write_text(text)
    result = run(*SIZE)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_flags_beat_what_contradicts_them_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KVPLAN_FORMAT", "csv")
    monkeypatch.setenv("KVPLAN_LIKELY", "1")
    fit = ("fit", "llama-3-8b", "--gpu", "h100", "--json")
    assert run(*fit).document["per_gpu"]["decides"] == "likely"
    assert run(*fit, "--safe").document["per_gpu"]["decides"] == "low"
    monkeypatch.setenv("KVPLAN_JSON", "1")
    monkeypatch.delenv("KVPLAN_FORMAT")
    assert run("size", "llama-3-8b", "--format", "csv").out.startswith("tokens,")


def test_flags_of_check_do_too(monkeypatch: pytest.MonkeyPatch):
    script = Path("serve.sh")
    script.write_text("vllm serve meta-llama/Llama-3.1-8B\n")
    check = ("check", str(script), "--gpu", "h100", "--offline")
    monkeypatch.setenv("KVPLAN_FORMAT", "table")
    monkeypatch.setenv("KVPLAN_LIKELY", "1")
    (found,) = run(*check, "--json", "--safe").document["results"]
    assert found["checks"][0]["end"] == "safe"


def test_where_a_bad_value_came_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KVPLAN_CTX", "8q")
    assert "KVPLAN_CTX: '8q'" in run("size", "llama-3-8b").err


def test_env_shows_settings_and_no_token(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KVPLAN_TP", "8")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    Path("kvplan.toml").write_text("tp = 8\n")
    result = run("env", "--json")
    shown = {row["name"]: row["value"] for row in result.document["settings"]}
    assert shown["KVPLAN_TP"] == "8"
    assert "not shown" in shown["HF_TOKEN"]
    assert "kvplan.toml" in shown["settings"]
    assert "hf_secret" not in result.out
