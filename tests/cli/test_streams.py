"""Exit codes, streams, errors: what a script or a pipe relies on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.running import ROOT, process, run

FIT = ("fit", "llama-3-70b", "--gpu", "h100", "--tp", "8", "--ctx", "8k")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (FIT, 0),
        (("fit", "llama-3-70b", "--gpu", "4090", "--ctx", "8k"), 1),
        ((*FIT, "--concurrency", "100000"), 1),
        (("fit", "llama-3-70b", "--gpu", "h100", "--tp", "7", "--ctx", "8k"), 2),
        (("size", "no-such-model"), 2),
        (("nonsense",), 2),
        ((), 2),
        (("--help",), 0),
        (("--version",), 0),
        (("size", "--help"), 0),
    ],
)
def test_an_exit_code_is_2_exactly_when_only_stderr_speaks(words: tuple[str, ...], code: int):
    result = run(*words)
    assert result.code == code
    assert (result.out == "") == (code == 2)
    assert (result.err != "") == (code == 2)


def test_the_hub_out_of_reach_is_3():
    result = process("size", "some-org/some-model", "--offline")
    assert result.code == 3
    assert result.out == ""
    assert result.err.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fitt", "llama-3-8b"), "did you mean fit?"),
        (("size", "llama-3-8b", "--kv-dtyp", "fp8"), "did you mean --kv-dtype?"),
        (("size", "llama-3-8b", "--safe"), "--safe is an option of kvplan fit and kvplan check"),
        (("models", "--csv"), "hint: --format csv"),
        (("check", "--sarif"), "hint: --format sarif"),
        (("check", "--csv"), "hint: kvplan check --help"),
        (("fit", "llama-3-8b", "--markdown"), "hint: --format markdown"),
        (
            ("fit", "llama-3-8b", "--gpu", "h100", "--gpu-memory", "1EB"),
            "a unit that isn't known\nhint: known: B, kB, MB",
        ),
        (("fit", "llama-3-8b", "--gpu", "h100", "--gpu-memory", "80G"), "write 80GiB or 80GB"),
        (("size", "https://example.com/x"), "only addresses like https://huggingface.co/org/name"),
        (("size", "https://huggingface.co/meta-llama"), "only addresses like https://huggingface.co/org/name"),
        (("size", "llama-3-7b"), "llama-3"),
        (("size", "llama-3-8b", "--kv-dtype", "fp9"), "--kv-dtype: 'fp9' is not a cache format"),
        (("size", "llama-3-8b", "--ctx", "8q"), "--ctx: "),
        (("size", "llama-3-8b", "--tp", "x"), "--tp: 'x' is not a whole number"),
        (("size", "llama-3-8b", "--tp"), "'--tp' requires an argument"),
        (("size", "llama-3-8b", "--json=1"), "'--json' does not take a value"),
        (("size",), "Missing argument 'MODEL'"),
        (("size", "llama-3-8b", "more"), "argument (more)"),
        (("--tp", "8", "size"), "after the command"),
        (("fit", "llama-3-8b"), "which GPU?"),
        (("fit", "llama-3-8b", "--gpu", "h1000"), "h1000"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--weights", "140"), "140GiB or 140GB"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--safe", "--likely"), "--safe and --likely"),
        (("fit", "llama-3-8b", "--gpu", "h100x8", "--tp", "4"), "not 8"),
        (("fit", "llama-3-70b", "--gpu", "h100", "--tp", "7", "--ctx", "8k"), "1, 2, 4, 8, 16, 32, 64"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--engine", "vlm"), "vllm"),
        (("size", "llama-3-8b", "--format", "xml"), "table, json, markdown, csv"),
        (("size", "llama-3-8b", "--json", "--format", "csv"), "--json and --format"),
        (("size", "llama-3-8b", "-o", "plan"), "which format?"),
        (("size", "llama-3-8b", "--sinks", "4"), "--sinks needs --window"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--gpu-bandwidth", "0GB/s"), "--gpu-bandwidth: '0GB/s' is nothing"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--gpu-bandwidth", "0.0TB/s"), "--gpu-bandwidth: '0.0TB/s' is nothing"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--gpu-memory", "0GB"), "--gpu-memory: '0GB' is nothing"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--kv-memory", "0GiB"), "--kv-memory: '0GiB' is nothing"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--weights", "0.5B"), "--weights: '0.5B' is nothing"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--weights", "-1GB"), "--weights: '-1GB' is not a number of bytes"),
        (("verify", "llama-3-8b", "--memory", "0MB"), "--memory: '0MB' is nothing"),
        (("size", "llama-3-8b", "--kv-dtype", "fp8_ds_mla"), "fp8_ds_mla stores latents only"),
        (("compare", "llama-3-8b", "--kv-dtype", "bf16,bf16:nvfp4_ds_mla"), "nvfp4_ds_mla stores latents only"),
        (("size", "llama-3-8b", "--kv-dtype", "fp8:"), "--kv-dtype: 'fp8:' is not a cache format"),
        (("size", "llama-3-8b", "--kv-dtype", ":fp8"), "names no format for the keys"),
        (("compare", "mamba-2.8b", "--attention", "mha"), "mamba-2.8b has no attention that could be replaced by mha"),
        (("compare", "deepseek-v4-flash", "--attention", "mqa"), "deepseek-v4-flash has compressed attention"),
        (
            ("size", "llama-3-8b", "--prompt", "9000", "--ctx", "8k"),
            "--prompt: 9,000 tokens leave nothing to generate in a sequence of 8,192",
        ),
        (("size", "llama-3-8b", "--ctx", "1,000"), "'1,000' may be one length with thousands separators, or several"),
        (("size", "llama-3-8b", "--ctx", "8k,131,072"), "write 131072 for one length, or '131, 072' for 2"),
        (("size", "llama-3-8b", "--ctx", "8,192"), "write 8192 for one length, or '8, 192' for 2"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--gpu-memory", "79,5GB"), "79.5GB?"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--gpu-bandwidth", "3,35TB/s"), "3.35TB/s?"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--weights", "4,9GB"), "4.9GB?"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "1,5k"), "1.5k?"),
        (("gpus", "h1000"), "h1000"),
        (("schema", "sizes"), "size, fit"),
        (("completion", "tcsh"), "bash, zsh, fish"),
    ],
)
def test_errors_say_what_why_and_what_next(words: tuple[str, ...], said: str):
    result = run(*words)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert said in result.err
    assert "Traceback" not in result.err


def test_no_traceback_without_debug(monkeypatch: pytest.MonkeyPatch):
    import kvplan.api

    def broken(*_given: object, **_named: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(kvplan.api, "size", broken)
    result = run("size", "llama-3-8b")
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert "this is a bug" in result.err
    assert "ZeroDivisionError" in run("size", "llama-3-8b", "--debug").err.split("error:")[0]


@pytest.mark.parametrize("where", ["kvplan.api.size", "kvplan.cli.streams.complain"])
def test_no_memory_to_complain_with(where: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Not a traceback and exit code 1, which is a "no": another error may have led there."""

    def nothing_left(*_given: object, **_named: object) -> None:
        raise MemoryError

    monkeypatch.setattr(where, nothing_left)
    result = run("size", "llama-3-8b" if where.endswith("size") else "no-such-model")
    assert (result.code, result.out, result.err) == (2, "", "")
    assert capfd.readouterr().err.startswith("error: there is no memory left\nhint: ")


def test_names_cannot_steer_a_terminal():
    result = run("size", "\x1b[31mred\x1b[0m")
    assert "\x1b" not in result.err


def test_a_closed_pipe_ends_quietly():
    command = f"{sys.executable} -m kvplan models | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["size llama-3-8b", "size llama-3-8b --json", "fit --help", "--version"])
@pytest.mark.parametrize(("where", "why"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")])
def test_an_output_that_cannot_be_written_is_no_bug(words: str, where: str, why: str):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kvplan {words} {where}"],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if where == ">&-" and words.startswith(("fit", "--")):  # click prints help nowhere, quietly
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: standard output can't be written\ncause: {why}\n")
    assert "bug" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_error_that_nobody_can_read_keeps_its_exit_code():
    for where in ("2>/dev/full", "2>&-"):
        command = f"{sys.executable} -m kvplan size no-such-model {where}"
        done = subprocess.run(["bash", "-c", command], check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert done.returncode == 2


def test_a_variable_that_nothing_reads_is_named(monkeypatch: pytest.MonkeyPatch):
    plain = run("size", "llama-3-8b", "--json")
    monkeypatch.setenv("KVPLAN_KV_DTYP", "fp8")
    monkeypatch.setenv("KVPLAN_UTILIZATION", "0.8")  # of another command
    result = run("size", "llama-3-8b", "--json")
    assert result == (
        0,
        plain.out,
        "note: KVPLAN_KV_DTYP is no setting and is ignored; did you mean KVPLAN_KV_DTYPE?\n",
    )


def test_a_link_that_points_nowhere(tmp_path: Path):
    (tmp_path / "model").symlink_to("gone.json")
    result = run("size", str(tmp_path / "model"))
    assert result.code == 2
    assert "model is a broken link\ncause: it points to gone.json, which doesn't exist" in result.err


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch):
    import kvplan.api

    def interrupted(*_given: object, **_named: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(kvplan.api, "size", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        assert run("size", "llama-3-8b") == (130, "", "")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_config_is_read_from_standard_input():
    config = '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}'
    result = process("size", "-", "--ctx", "1k", "--json", stdin=config)
    assert result.code == 0, result.err
    assert result.document["cache"]["bytes_per_token"] == 2 * 4 * (64 + 64) * 2


# where output goes


def test_files_take_the_format_of_their_ending(tmp_path: Path):
    names = ("plan.json", "plan.csv", "plan.md", "plan.txt")
    outputs = [word for name in names for word in ("-o", str(tmp_path / name))]
    result = run(*FIT, *outputs)
    assert (result.code, result.out) == (0, "")
    assert json.loads((tmp_path / "plan.json").read_text())["verdict"] == "fits"
    assert (tmp_path / "plan.csv").read_text().startswith("model.id,")
    assert (tmp_path / "plan.md").read_text().startswith("### ")
    assert (tmp_path / "plan.txt").read_text().startswith("llama-3-70b")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_table_on_the_screen_and_json_in_a_file(tmp_path: Path):
    path = tmp_path / "plan.json"
    result = run(*FIT, "--format", "table,json", "-o", str(path))
    assert result.out.startswith("llama-3-70b")
    assert json.loads(path.read_text())["verdict"] == "fits"


def test_json_stays_alone_on_stdout(tmp_path: Path):
    path = tmp_path / "plan.md"
    result = run(*FIT, "--json", f"-o{path}")
    assert result.document["verdict"] == "fits"
    assert path.exists()


def test_nothing_is_written_after_a_failure(tmp_path: Path):
    missing = tmp_path / "nowhere" / "plan.json"
    result = run(*FIT, "--format", "table,json", "-o", str(missing))
    assert result.code == 2
    assert result.out == ""
    assert "can't be written" in result.err
    assert run("size", "no-such-model", "-o", str(tmp_path / "plan.json")).code == 2
    assert not list(tmp_path.iterdir())


# colour and signs


def test_colour_is_for_terminals_unless_it_is_forced():
    assert "\x1b[" not in process(*FIT).out
    assert "\x1b[" in process(*FIT, FORCE_COLOR="1").out
    assert "\x1b[" not in process(*FIT, FORCE_COLOR="1", NO_COLOR="1").out
    assert "\x1b[" in process(*FIT, "--color", "always", NO_COLOR="1").out
    assert "\x1b[" in process("size", "no-such-model", FORCE_COLOR="1").err


def test_plain_ascii_where_nothing_else_can_be_written():
    result = process(*FIT, PYTHONIOENCODING="ascii")
    assert result.code == 0
    assert result.out.isascii()
    assert "####" in result.out


def test_pages_fit_a_hundred_columns():
    for words in (
        FIT,
        ("size", "gemma-3-27b"),
        ("models",),
        ("gpus",),
        ("gpus", "h100"),
        ("engines",),
        ("fit", "--help"),
    ):
        assert max(map(len, run(*words).out.splitlines())) <= 100
    assert max(map(len, process(*FIT, COLUMNS="60").out.splitlines())) <= 60


def test_a_narrow_window_gets_the_narrowest_page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "10")
    assert "No room in 40 columns, the least that a page has, for: " in " ".join(run("size", "llama-3-8b").out.split())


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that can't be entered, whoever runs the tests."""
    folder, stat = tmp_path / "locked", Path.stat
    folder.mkdir()

    def refuse(path: Path, **more: bool) -> os.stat_result:
        if folder in path.absolute().parents:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", refuse)
    return folder


@pytest.mark.parametrize("command", [("size", "llama-3-8b"), ("env",)])
def test_a_home_that_cant_be_entered_has_no_settings(
    command: tuple[str, ...], locked: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(locked))
    assert run(*command)[::2] == (0, "")


def test_a_settings_file_that_cant_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.kvplan]\n")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        result = run("size", "./config.json")
    assert result.code == 2
    assert (
        "pyproject.toml can't be read\ncause: Permission denied\nhint: make it readable, or ignore settings files with --no-config"
        in result.err
    )


@pytest.mark.parametrize("name", [".", "config.json", "model"])
def test_a_model_that_cant_be_reached_is_no_bug(name: str, locked: Path):
    result = run("size", str(locked / name), "--no-config")
    assert result.code == 2
    assert "can't be read\ncause: Permission denied" in result.err


def test_what_the_system_says_of_a_file_is_no_bug(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error", "/mnt/models/config.json")

    monkeypatch.setattr("kvplan.api.engines", fail)
    result = run("engines")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: /mnt/models/config.json can't be used\ncause: Input/output error\n"


def test_a_link_that_leads_to_itself(tmp_path: Path):
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    said = run("size", str(tmp_path / "one"), "--no-config").err
    assert "is a link that leads back to itself" in said
    assert "there is no" not in said
