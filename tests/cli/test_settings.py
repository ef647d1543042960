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
        ("tp = 'eight'", "kvplan.toml: tp: 'eight' is not a whole number"),
        ("tp = 8.5", "kvplan.toml: tp: '8.5' is not a whole number"),
        ("kv-dtype = 'fp9'", "kvplan.toml: kv_dtype: 'fp9' is not a cache format"),
        ("enforce_eager = 'maybe'", "kvplan.toml: enforce_eager: 'maybe' is neither on nor off"),
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


def test_an_answer_says_what_was_set_elsewhere(monkeypatch: pytest.MonkeyPatch):
    Path("kvplan.toml").write_text("kv-dtype = 'fp8'\nutilization = 0.5\nenforce-eager = true\nformat = 'table'\n")
    monkeypatch.setenv("KVPLAN_TP", "2")
    words = ("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k")
    said = (
        "tp 2 (KVPLAN_TP), kv_dtype fp8 (kvplan.toml), utilization 0.5 (kvplan.toml), enforce_eager true (kvplan.toml)."
    )
    page = run(*words)
    assert f"Set elsewhere: {said}" in " ".join(page.out.split())
    assert page.err == ""
    assert run(*words, "--json").document["settings"] == [
        {"name": "tp", "value": "2", "source": "KVPLAN_TP"},
        {"name": "kv_dtype", "value": "fp8", "source": "kvplan.toml"},
        {"name": "utilization", "value": "0.5", "source": "kvplan.toml"},
        {"name": "enforce_eager", "value": "true", "source": "kvplan.toml"},
    ]
    for other in (("size", "llama-3-8b"), ("compare", "llama-3-8b"), ("fit", "--gpu", "h100", "--ctx", "8k")):
        shown = " ".join(run(*other).out.partition("Set elsewhere: ")[2].split())
        assert "tp 2 (KVPLAN_TP)" in shown
        assert "kv_dtype fp8 (kvplan.toml)" in shown
    emitted = run(*words, "--emit", "vllm")
    assert "Set elsewhere" not in emitted.out
    assert "note: set elsewhere: tp 2 (KVPLAN_TP), kv_dtype fp8 (kvplan.toml)" in emitted.err
    told = run(*words, "--tp", "1", "--kv-dtype", "bf16", "--utilization", "0.9", "--no-config")
    assert "elsewhere" not in told.out + told.err


def test_what_a_flag_undoes_is_not_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KVPLAN_LIKELY", "1")
    words = ("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k")
    assert "likely 1 (KVPLAN_LIKELY)" in run(*words).out
    assert "elsewhere" not in run(*words, "--safe").out


def test_an_error_says_what_was_set_elsewhere():
    Path("kvplan.toml").write_text("tp = 8\n")
    result = run("fit", "llama-3-70b", "--gpu", "h100x4", "--ctx", "8k")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("note: set elsewhere: tp 8 (kvplan.toml)\nerror: ")


def test_env_shows_keys_and_values(tmp_path: Path):
    Path("kvplan.toml").write_text("tp = 8\n[fit]\nkv-dtype = 'fp8'\nlora_targets = ['q_proj', 'v_proj']\n")
    user = tmp_path / "home" / "kvplan"
    user.mkdir(parents=True)
    (user / "config.toml").write_text("engine = 'vllm'\n")
    rows = [(row["name"], row["value"], row["source"]) for row in run("env", "--json").document["settings"]]
    assert ("tp", "8", "kvplan.toml") in rows
    assert ("[fit] kv_dtype", "fp8", "kvplan.toml") in rows
    assert ("[fit] lora_targets", "q_proj,v_proj", "kvplan.toml") in rows
    assert ("engine", "vllm", str(user / "config.toml")) in rows
    Path("kvplan.toml").write_text("[fit]\ntpp = 8\n")
    assert "kvplan fit has no setting 'tpp'" in run("env", "--json").out
