"""What users see of the weights: headers before the formula, a format that is asked about, what a step reads."""

from __future__ import annotations

import io
import json
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import process, run, run_json
from weights.range_server import RangeServer
from weights.test_headers import DATA, LLAMA_LAYER

from kvplan import api
from kvplan.arch.parallel import Parallel
from kvplan.cli.progress import Progress

MIXTRAL_LAYER = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 4096
EXPERT = 3 * 4096 * 14336


def copied(name: str, into: Path) -> Path:
    return Path(shutil.copytree(DATA / name, into / name))


def rewritten(path: Path, rename: Callable[[str], str]) -> None:
    """The same tensors in fp8, under other names."""
    raw = path.read_bytes()
    held = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    held.pop("__metadata__", None)
    entries = {
        rename(name): {**entry, "dtype": "F8_E4M3", "data_offsets": [place // 2 for place in entry["data_offsets"]]}
        for name, entry in held.items()
    }
    start, data = json.dumps(entries).encode(), max(entry["data_offsets"][1] for entry in entries.values())
    path.write_bytes(struct.pack("<Q", len(start)) + start + bytes(data))


def sized(folder: Path, *words: str) -> dict:
    return run_json("size", str(folder), *words)["model"]


def test_headers_beside_a_config_are_preferred(tmp_path: Path):
    found = sized(copied("sharded", tmp_path))["weights"]
    assert found["basis"] == "headers"
    assert found["bytes"] == found["formula_bytes"] == 2 * (2 * LLAMA_LAYER + 2 * 100 * 32 + 32)
    assert found["method"] == "headers of 5 files"


def test_the_page_says_how_far_apart_they_are(tmp_path: Path):
    folder, half = copied("tied", tmp_path), 2 * LLAMA_LAYER + 100 * 32 + 32
    rewritten(next(folder.glob("*.safetensors")), lambda name: name)  # one byte an element
    page = run("size", str(folder), "--no-config").out
    assert "by headers of 1 file; the config's formula gives 100 % more" in " ".join(page.split())
    tree = run_json("size", str(folder))["explain"]["children"][2]
    assert tree["name"] == "weights"
    assert tree["value"] == half
    assert tree["inputs"]["by the config's formula"] == 2 * half


def test_names_that_say_no_layer_leave_the_formula(tmp_path: Path):
    folder = copied("tied", tmp_path)
    rewritten(next(folder.glob("*.safetensors")), lambda name: name.replace("layers", "stages"))
    found = sized(folder)
    assert found["weights"]["basis"] == "config"
    assert any("can't be told apart" in note for note in found["notes"])


def test_a_plan_stands_on_the_headers(tmp_path: Path):
    report = run_json("fit", str(copied("sharded", tmp_path)), "--gpu", "h100", "--ctx", "64", "--engine", "ideal")
    assert report["per_gpu"]["weights_bytes"] == 2 * (2 * LLAMA_LAYER + 2 * 100 * 32 + 32)
    assert report["explain"]["children"][0]["children"][1]["source"] == "headers of 5 files"


@pytest.mark.parametrize("claim", [2**60, 0, 10**6])
def test_a_lying_header_is_one_clear_error(tmp_path: Path, claim: int):
    folder = copied("tied", tmp_path)
    file = next(folder.glob("*.safetensors"))
    file.write_bytes(struct.pack("<Q", claim) + file.read_bytes()[8:])
    result = run("size", str(folder), "--no-config")
    assert result.code == 2
    assert result.out == ""
    assert f"error: {file.name} is not a safetensors file" in result.err


def test_files_that_are_not_there_leave_the_formula(tmp_path: Path):
    folder = copied("sharded", tmp_path)
    next(folder.glob("*.safetensors")).unlink()
    found = sized(folder)
    assert found["weights"]["basis"] == "config"
    assert any("1 of 5 files" in note for note in found["notes"])


def test_pointers_of_git_lfs_leave_the_formula(tmp_path: Path):
    folder = copied("tied", tmp_path)
    file = next(folder.glob("*.safetensors"))
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    found = sized(folder)
    assert found["weights"]["basis"] == "config"
    assert any("Git LFS" in note for note in found["notes"])


def test_a_hub_repository_gives_ranges(tmp_path: Path):
    files = {file.name: (file.read_bytes(), file.stat().st_size) for file in (DATA / "tied").iterdir()}
    with RangeServer({"org/small": files, "org/broken": {**files, "model.safetensors": (b"\xff" * 9, 9)}}) as hub:
        told = {
            "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "", "NO_PROXY": "127.0.0.1",
            "HF_HUB_OFFLINE": "0",
        }  # fmt: skip
        good = process("size", "org/small", "--json", "--no-config", **told)
        assert good.code == 0, good.err
        weights = good.document["model"]["weights"]
        assert (weights["basis"], weights["bytes"]) == ("headers", 2 * (2 * LLAMA_LAYER + 100 * 32 + 32))
        ranges = hub.ranges
        offline = process("size", "org/small", "--offline", "--json", "--no-config", **told)
        assert offline.document["model"]["weights"]["basis"] == "config"
        assert hub.ranges == ranges
        broken = process("size", "org/broken", "--json", "--no-config", **told)
        assert broken.code == 0, broken.err
        assert broken.document["model"]["weights"]["basis"] == "config"
        assert any("its headers can't be read" in note for note in broken.document["model"]["notes"])


def test_what_if_the_weights_were_kept_otherwise():
    report = run_json("size", "mixtral-8x7b", "--weight-dtype", "int4")
    found = report["model"]["weights"]
    linear = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 8 * EXPERT)
    rest = 2 * 32000 * 4096 + 4096 + 32 * (8 * 4096 + 2 * 4096)
    assert found["basis"] == "what_if"
    assert found["bytes"] == linear * (4 * 128 + 16 + 4) // 128 // 8 + 2 * rest
    assert any(note.startswith("What if: weights in int4") for note in report["model"]["notes"])


def test_what_if_in_a_plan():
    fp8 = run_json("fit", "llama-3-8b", "--gpu", "4090", "--ctx", "4k", "--weight-dtype", "fp8", "--engine", "ideal")
    own = run_json("fit", "llama-3-8b", "--gpu", "4090", "--ctx", "4k", "--engine", "ideal")
    linear = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096)
    outputs = 32 * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096)
    saved = own["per_gpu"]["weights_bytes"] - fp8["per_gpu"]["weights_bytes"]
    assert saved == linear - 4 * outputs  # a byte less for each, a scale in fp32 for each output


def test_a_format_nobody_knows_and_two_answers():
    assert "known:" in run("size", "llama-3-8b", "--weight-dtype", "fp7", "--no-config").err
    both = run("fit", "llama-3-8b", "--gpu", "h100", "--weights", "8GB", "--weight-dtype", "fp8", "--no-config")
    assert both.code == 2
    assert "--weight-dtype" in both.err


def test_what_a_step_of_a_batch_reads():
    reads = run_json("size", "mixtral-8x7b", "--batch", "16")["weight_reads"]
    dense = 2 * (32 * MIXTRAL_LAYER + 32000 * 4096 + 4096 + 16 * 4096)
    assert reads["batch"] == 16
    assert reads["low"] == dense + 2 * 32 * 2 * EXPERT
    assert reads["high"] == dense + 2 * 32 * 8 * EXPERT
    assert reads["likely"] == pytest.approx(dense + 2 * 32 * 8 * (1 - 0.75**16) * EXPERT, rel=1e-9)


def test_a_plan_says_what_its_step_reads():
    step = run_json("fit", "mixtral-8x7b", "--gpu", "h100x2", "--ctx", "8k", "--batch", "1")["decode"]
    whole = api.load_model("mixtral-8x7b").weights
    assert whole is not None
    assert step["weight_bytes"] == step["weight_bytes_low"] == step["weight_bytes_high"]
    assert step["weight_bytes"] == whole.read_bytes(1, Parallel(tp=2)).likely


def test_progress_is_drawn_on_a_terminal_after_a_second(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    now, screen = [0.0], Terminal()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress() as progress:
        progress.files(1, 4)
        assert screen.getvalue() == ""
        now[0] = 1.5
        progress.files(2, 4)
        assert "[############............] headers of 2 of 4 files" in screen.getvalue()
    assert screen.getvalue().endswith(" \r")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress() as progress:
        now[0] = 9
        progress.files(4, 4)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def budget(folder: Path, model: str) -> dict:
    """What `check` makes of a budget of this model on one L4."""
    lines = ["kvplan-budget: 1", "deployments:", "  ours:", f"    model: {model}", "    gpu: l4", "    engine: ideal"]
    file = folder / "kvplan-budget.yaml"
    file.write_text("\n".join(lines) + "\n")
    (result,) = json.loads(run("check", str(file), "--json", "--no-config").out)["results"]
    return result


def test_a_budget_stands_on_the_headers(tmp_path: Path):
    """The tied folder's tensors in one byte an element, half of what its config says."""
    folder, half = copied("tied", tmp_path), 2 * LLAMA_LAYER + 100 * 32 + 32
    rewritten(next(folder.glob("*.safetensors")), lambda name: name)
    found = budget(tmp_path, "./tied")
    assert found["subject"]["weights_basis"] == "headers"
    assert found["numbers"]["weights"]["likely"] == half
    next(folder.glob("*.safetensors")).unlink()
    found = budget(tmp_path, "./tied")
    assert (found["subject"]["weights_basis"], found["numbers"]["weights"]["likely"]) == ("config", 2 * half)


def test_a_lying_header_leaves_a_budget_without_an_answer(tmp_path: Path):
    next(copied("tied", tmp_path).glob("*.safetensors")).write_bytes(b"\xff" * 9)
    found = budget(tmp_path, "./tied")
    assert (found["status"], found["subject"]) == ("error", None)


def test_a_budget_asks_the_hub_unless_offline(tmp_path: Path):
    files = {file.name: (file.read_bytes(), file.stat().st_size) for file in (DATA / "tied").iterdir()}
    file = tmp_path / "kvplan-budget.yaml"
    file.write_text("kvplan-budget: 1\ndeployments:\n  ours: {model: org/small, gpu: l4, engine: ideal}\n")
    with RangeServer({"org/small": files}) as hub:
        told = {
            "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "", "NO_PROXY": "127.0.0.1",
            "HF_HUB_OFFLINE": "0",
        }  # fmt: skip
        found = [process("check", str(file), *words, "--json", "--no-config", **told) for words in ((), ("--offline",))]
    subjects = [done.document["results"][0]["subject"] for done in found]
    assert [subject["weights_basis"] for subject in subjects] == ["headers", "config"]
