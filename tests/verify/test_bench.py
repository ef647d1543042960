"""The script for a lent GPU: it fits its time, shows what it is for, and says why a receipt is missing."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from kvplan.api import load_model
from kvplan.arch.formats import parse_kv_format
from kvplan.verify import Options, ladder
from kvplan.verify.live import procedure
from kvplan.verify.live.checks.speed import LONG
from kvplan.verify.live.layers.mixer import Alone
from kvplan.verify.live.machine import Machine

pytestmark = pytest.mark.torch
H200_FREE = 139 * 2**30


def script() -> ModuleType:
    """bench/verify_gpu.py."""
    path = Path(__file__).parents[2] / "bench" / "verify_gpu.py"
    spec = importlib.util.spec_from_file_location("verify_gpu", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verify_gpu"] = module
    spec.loader.exec_module(module)
    return module


BENCH = script()


def most_tokens(words: tuple[str, ...]) -> int:
    """Of the ladder of a run on an empty H200, all sequences together."""
    given = dict(zip(words[1::2], words[2::2], strict=True))
    model = load_model(words[0], offline=True)
    kv, page = given.get("--kv-dtype"), given.get("--block-size")
    options = Options(
        device="cuda", tp=int(given.get("--tp", 1)), layers=int(given.get("--layers", 0)) or None,
        kv=None if kv is None else parse_kv_format(kv), page=None if page is None else int(page),
        batches=tuple(map(int, given.get("--batch", "").split(","))) if "--batch" in given else (),
    )  # fmt: skip
    machine = Machine("cuda:0", "NVIDIA H200", 140 * 2**30, H200_FREE, capability=(9, 0))
    known = procedure._prepare(model, options, torch.device("cuda"), machine, Alone())
    room = known.limit - (known.kv.weights_bytes() or 0)
    steps = ladder.rungs(known.kv, known.plan, room, options.batches, (), 4)
    return max(rung.batch * rung.contexts[-1] for rung in steps)


def test_every_model_is_read_beyond_a_million_tokens():
    """Where whole models leave less room, a run with fewer layers is there for that."""
    most: dict[tuple[str, bool], int] = {}
    for run in BENCH.RUNS:
        key = run.words[0], "--kv-dtype" in run.words
        most[key] = max(most.get(key, 0), most_tokens(run.words))
    assert len({name for name, _ in most}) == 6
    assert all(tokens > 1.03 * LONG for tokens in most.values()), most


def test_what_has_to_be_shown_comes_first():
    first = BENCH.RUNS[:6]
    assert len({run.words[0] for run in first}) == 6
    assert first[0].words == ("llama-3.1-8b",)
    assert not any("--layers" in run.words for run in first)


def test_everything_fits_into_the_time():
    runs = sum(run.seconds for run in BENCH.RUNS)
    assert runs + BENCH.START_SECONDS + BENCH.KERNEL_SECONDS + BENCH.SLACK <= BENCH.SECONDS <= 345
    assert BENCH.SLACK >= 10
    assert all(run.seconds - 12 > 9 for run in BENCH.RUNS)  # what a run is given, beside its start
    assert len({run.name for run in BENCH.RUNS}) == len(BENCH.RUNS)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (SimpleNamespace(returncode=2, stdout="", stderr="error: no CUDA device can be used\n"), "exit 2 and no receipt: error: no CUDA"),
        (SimpleNamespace(returncode=0, stdout="{half a", stderr=""), "no receipt: {half a"),
        (subprocess.TimeoutExpired("kvplan", 9, stderr=b"timing a batch"), "stopped after 0 s: timing a batch"),
        (subprocess.TimeoutExpired("kvplan", 9), "stopped after 0 s"),
    ],
)  # fmt: skip
def test_a_missing_receipt_has_a_reason(done, said, monkeypatch):
    def run(*_: object, **__: object) -> SimpleNamespace:
        if isinstance(done, Exception):
            raise done
        return done

    monkeypatch.setattr(subprocess, "run", run)
    document, reason = BENCH.verify(BENCH.RUNS[0], "cuda", 9.0)
    assert document is None
    assert said in reason


class Compiler:
    """Stands for a process that compiles: the first is too slow, the second fails, the others are done."""

    def __init__(self, words: list[str], **_: object) -> None:
        self.number = int(words[words.index("--cases") + 1])
        self.killed = False

    def wait(self, timeout: float | None = None) -> int:
        if self.number == 0 and not self.killed:
            raise subprocess.TimeoutExpired("compile", timeout or 0)
        return int(self.number == 1)

    def kill(self) -> None:
        self.killed = True


LINE = '{"shape": "llama-3.1-8b", "format": "int8_per_token_head", "reader": "x", "bytes": 1}'


@pytest.mark.parametrize("late", [False, True])
def test_a_sweep_names_what_it_left_out(late, monkeypatch, tmp_path):
    """One process for each shape and format; what isn't compiled or timed in time is a line, not silence."""
    asked: list[str] = []

    def run(words: list[str], **_: object) -> SimpleNamespace:
        asked.append(words[words.index("--cases") + 1])
        if late:
            raise subprocess.TimeoutExpired("sweep", 9, output=(LINE + '\n{"shape": "llama').encode())
        return SimpleNamespace(returncode=1, stdout=LINE + "\n", stderr="out of memory")

    monkeypatch.setattr(subprocess, "Popen", Compiler)
    monkeypatch.setattr(subprocess, "run", run)
    rows, skipped = BENCH.sweep(tmp_path, "cuda", 10.0)
    assert [row["format"] for row in rows] == ["int8_per_token_head"]
    assert asked == ["2,3,4,5,6,7,8,9,10,11"]
    assert skipped[0].startswith("readers of llama-3.1-8b, bf16: not compiled within")
    assert skipped[1] == "readers of llama-3.1-8b, fp8: exit 1 as they were compiled"
    assert len(skipped) == 2 + 9
    assert all(("stopped after" if late else "exit 1: out of memory") in line for line in skipped[2:])


def test_every_cache_that_is_verified_is_compiled_first():
    """Each run finds the attention kernels of its cache in Triton's own cache: a shape, a format and pages like its own."""
    compiled = {(shape.name.split()[0], format_, shape.page) for shape in BENCH.SHAPES for format_ in shape.formats}
    for run in BENCH.RUNS:
        given = dict(zip(run.words[1::2], run.words[2::2], strict=True))
        page = int(given["--block-size"]) if "--block-size" in given else None
        wanted = given.get("--kv-dtype", "bf16"), page
        assert any(
            wanted == found and run.words[0].startswith(name) for name, *rest in compiled if (found := tuple(rest))
        ), run


@pytest.mark.parametrize("number", range(len(BENCH.CASES)))
def test_every_case_is_read_by_the_readers_it_is_for(number, capsys):
    assert BENCH.sweep_here([BENCH.CASES[number]], "cpu", small=True) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "torch spans" in [row["reader"] for row in rows]
    assert all(row["seconds"] > 0 for row in rows)


def test_torch_is_imported_once_before_anything_is_timed(capsys):
    BENCH.preflight(argparse.ArgumentParser(), "cpu")
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"[\d.]+ s$", "", line) for line in lines] == ["kvplan --help: ", "torch and a sum on cpu: "]


@pytest.mark.parametrize(("device", "said"), [("cuda:99", ""), ("nothing", "nothing")])
def test_a_device_that_does_not_compute_ends_the_script(device, said, capsys):
    with pytest.raises(SystemExit) as ended:
        BENCH.preflight(argparse.ArgumentParser(), device)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.strip()
    assert said in error


def test_launches_that_nobody_counted_are_a_dash():
    assert BENCH.launches({"kernels": None, "launch_floor_s": None}) == "-"
    assert BENCH.launches({"kernels": 700, "launch_floor_s": 1.2e-6}) == "700 x 1.20 us"
