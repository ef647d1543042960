"""Whole verifications on the CPU: small models of every kind, wrong predictions, two ranks, and bad wishes."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from cli.running import process, run
from verify import tiny

import kvplan
from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.layers import Attention, Layer
from kvplan.arch.model import map_caches
from kvplan.errors import CannotSplit, Unsupported, UsageError
from kvplan.plan.calibration import calibration
from kvplan.report.schema import VerifyReport
from kvplan.verify import Options, default_model, verify
from kvplan.verify.live import procedure
from kvplan.verify.live.checks import timing

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("quick")]
ROOT = Path(__file__).parents[2]
QUICK = Options(device="cpu", batches=(1, 2), contexts=(64, 128))


def verdicts(report: VerifyReport, check: str) -> dict[str, str]:
    return {row.what: row.verdict for row in report.rows if row.check == check}


def write(tmp_path: Path, kind: str) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**tiny.COMMON, **tiny.CONFIGS[kind]}))
    return str(path)


FORMATS_IN_TURN = (("auto", None), ("fp8", 16), ("int8_per_token_head", None))
KINDS = [(kind, *FORMATS_IN_TURN[place % 3]) for place, kind in enumerate(tiny.CONFIGS)]


@pytest.mark.parametrize(("kind", "kv", "page"), KINDS, ids=tuple(tiny.CONFIGS))
def test_every_kind_is_confirmed(kind, kv, page):
    from dataclasses import replace

    options = replace(QUICK, kv=None if kv == "auto" else parse_kv_format(kv), page=page)
    report = verify(tiny.model(kind), options)
    assert report.verdict == "confirmed", [row for row in report.rows if row.verdict == "refuted"]
    assert report.built is not None
    assert report.built.layers == report.built.of_layers
    bytes_of = verdicts(report, "bytes")
    assert bytes_of.pop("weights that are only held", "reported") == "reported"
    assert set(bytes_of.values()) <= {"confirmed", "not run"}
    assert verdicts(report, "bytes")["weights in bf16"] == "confirmed"
    assert "confirmed" in verdicts(report, "capacity").values()
    assert len(report.steps) == 4
    assert all(step.measured_s > 0 for step in report.steps)
    # On a CPU nothing is claimed about time, and nothing can be refuted by a busy machine.
    assert set(verdicts(report, "time").values()) <= {"reported", "not run"}


def test_what_is_measured_is_what_the_formula_says():
    """GQA, 3 layers, 2 KV heads of 16 + 16 in bf16: 384 B a token; the report's own row holds the same product."""
    report = verify(tiny.model("gqa"), QUICK)
    row = next(row for row in report.rows if row.what == "cache, full, 2 x 37 tokens")
    assert row.measured == row.predicted == 2 * 37 * 384
    most = next(row for row in report.rows if row.check == "capacity")
    assert most.predicted == most.measured == 8


def test_sinks_are_verified_too():
    streaming = map_caches(tiny.model("gqa"), lambda _: Attention(4, 2, 16, 16, window=60, sinks=4))
    report = verify(streaming, QUICK)
    assert report.verdict == "confirmed"
    # Nothing grows after 64 tokens, so the batch is what grows: 1 MiB holds 42 times 3 layers x 64 slots x 128 B.
    row = next(row for row in report.rows if row.what == "cache, sliding, 42 x 4,096 tokens")
    assert row.measured == 42 * 3 * 64 * 128


@pytest.mark.parametrize(("kind", "law"), [("gqa", Attention), ("sliding", Attention), ("chunked", Attention)])
def test_a_wrong_prediction_is_refuted(kind, law, monkeypatch, tmp_path):
    """Twice the bytes predicted for one kind of cache: its row, and the whole run, say so, and the command ends with 1."""
    right = law.parts
    wrong_kind = {"gqa": "full", "sliding": "sliding", "chunked": "chunked"}[kind]

    def wrong(self, shard, kv, dtype):
        from dataclasses import replace

        return tuple(
            replace(part, group=replace(part.group, per_state=2 * part.group.per_state))
            if part.kind == wrong_kind
            else part
            for part in right(self, shard, kv, dtype)
        )

    monkeypatch.setattr(law, "parts", wrong)
    result = run("verify", write(tmp_path, kind), "--device", "cpu", "--batch", "1", "--ctx", "64", "--json")
    assert result.code == 1
    rows = {row["what"]: row for row in result.document["rows"]}
    assert result.document["verdict"] == "refuted"
    assert rows[f"cache, {wrong_kind}, 2 x 37 tokens"]["error"] == -0.5
    assert all(
        row["verdict"] == "confirmed"
        for row in rows.values()
        if row["check"] == "recompute" and row["measured"] is not None
    )


def test_a_wrong_count_of_weights_is_refuted():
    from dataclasses import replace

    model = tiny.model("gqa")
    assert model.weights is not None
    lost = replace(model.weights, last=(*model.weights.last, model.weights.last[0]))  # a norm that isn't there
    # What the blueprint holds is taken from the same list, so hide it from one of the two.
    report = verify(replace(model, weights=replace(lost, layers=tuple(block[:-1] for block in lost.layers))), QUICK)
    assert verdicts(report, "bytes")["weights in bf16"] == "refuted"
    assert report.verdict == "refuted"


def test_a_share_of_a_rank(tmp_path):
    result = run(
        "verify",
        write(tmp_path, "gqa"),
        "--device",
        "cpu",
        "--tp",
        "2",
        "--rank",
        "1",
        "--batch",
        "1",
        "--ctx",
        "64",
        "--json",
    )
    assert result.code == 0
    assert result.document["rank"] == 1
    row = next(row for row in result.document["rows"] if row["what"] == "cache, full, 2 x 37 tokens")
    assert row["measured"] == 2 * 37 * 384 // 2
    assert any("no all-reduce" in note for note in result.document["notes"])


def test_the_page_and_the_schema(tmp_path):
    import jsonschema

    words = ("verify", write(tmp_path, "shared"), "--device", "cpu", "--batch", "1", "--ctx", "64, 128")
    page = run(*words, "-o", str(tmp_path / "receipt.json"), "--format", "table")
    assert page.code == 0
    assert page.err == ""
    assert ": confirmed (" in page.out
    assert all(len(text) <= 100 for text in page.out.splitlines())
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    jsonschema.validate(receipt, json.loads(run("schema", "verify").out))
    assert receipt["schema"] == "kvplan.verify/1"
    assert receipt["versions"]["torch"]
    assert "embed_tokens_per_layer" in receipt["built"]["held"]
    terms = calibration(receipt, "receipt.json")
    assert terms.copy > 0
    assert (terms.gpu, terms.driver_name) == (None, receipt["machine"]["name"])


GLOO = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
sys.modules["numpy"] = None  # torch alone is all that verify asks for
from kvplan.verify.run import need_torch
need_torch()
import torch
torch.set_num_threads(1)
from kvplan.cli import main
from kvplan.verify.live import procedure
procedure._CPU_POOL = 2**20
sys.exit(main(["verify", {config!r}, "--device", "cpu", "--tp", "2", "--batch", "1", "--ctx", "64, 128", "--json"]))
"""


TWO = {
    # A latent is whole on every rank: 3 layers of 32 + 16 elements in bf16.
    "mla": ("cache, latent, 2 x 37 tokens", 2 * 37 * 3 * 48 * 2),
    # One of two KV heads, 3 layers, 16 + 16 elements in bf16; rank 1 adds no bias to a sum.
    "output biases": ("cache, full, 2 x 37 tokens", 2 * 37 * 3 * 32 * 2),
}


@pytest.mark.parametrize("kind", TWO)
def test_two_ranks_agree_with_the_prediction(kind, tmp_path):
    """Two processes under gloo: each holds its half, sums go through both, rank 0 prints the worst of both."""
    code = GLOO.format(tests=str(ROOT / "tests"), root=str(ROOT), config=write(tmp_path, kind))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code], env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    found = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], found
    assert found[1][0] == ""
    report = json.loads(found[0][0])
    assert report["verdict"] == "confirmed"
    assert report["rank"] is None
    rows = {row["what"]: row for row in report["rows"]}
    what, size = TWO[kind]
    assert rows[what]["measured"] == size
    assert rows["weights used by a step of one sequence"]["verdict"] == "confirmed"
    assert any(row["check"] == "capacity" and row["verdict"] == "confirmed" for row in report["rows"])


def test_wishes_that_cannot_be_granted(tmp_path, monkeypatch):
    config = write(tmp_path, "gqa")
    for words, said in (
        (("--device", "cuda"), "no CUDA device"),
        (("--device", "tpu"), "not a device"),
        (("--device", "cuda:x"), "not a device"),
        (("--rank", "1"), "--tp 8 --rank 1"),
        (("--meta", "--layers", "2"), "--meta can't be combined with --device and --layers"),
        (("--meta", "--tp", "2"), "--meta can't be combined with --device and --tp"),
        (("--tp", "2", "--rank", "2"), "--rank 2"),
        (("--tp", "3"), "can't split"),
        (("--memory", "1MiB"), "too little"),
        (("--memory", "900000GiB"), "more than"),
        (("--kv-dtype", "nvfp4"), "nvfp4"),
        (("--kv-dtype", "turboquant_k8v4"), "turboquant_k8"),
    ):  # fmt: skip
        given = words if "--device" in words else (*words, "--device", "cpu")
        result = run("verify", config, *given)
        assert (result.code, result.out) == (2, ""), words
        assert said in result.err, result.err
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert "torchrun" in run("verify", config, "--device", "cpu", "--tp", "2").err


def test_the_help_offers_what_is_taken():
    """Every format that is named there can be held, and every one that can be held is named there or by the shell's completion."""
    from kvplan.cli.commands.verify import KV_DTYPE
    from kvplan.cli.completion import candidates
    from kvplan.verify.live.stored import _KEPT
    from kvplan.verify.options import HELD_FORMATS

    able = {name for name in FORMATS if name in _KEPT}
    offered = KV_DTYPE.help.removeprefix("cache format: ").removesuffix(", or K:V").split(", ")
    assert len(offered) == len(able)
    assert set(offered) == set(HELD_FORMATS) == able
    assert {item.value for item in candidates(KV_DTYPE.completes, "fp8:")} == {
        f"fp8:{name}" for name in (*able, "auto")
    }
    assert "nvfp4" not in run("verify", "--help").out


def test_without_torch_there_is_one_clear_message(monkeypatch, tmp_path):
    from kvplan.verify import run as module

    monkeypatch.setattr(module, "find_spec", lambda _: None)
    result = run("verify", write(tmp_path, "gqa"))
    assert result.code == 2
    assert result.err.startswith("error: verify needs torch")
    assert "pip install" in result.err


def test_a_torch_that_is_broken_is_said_to_be(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "raise ImportError('libcudart.so.13: cannot open shared object file')"
    )
    result = process("verify", "llama-3.2-1b", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (result.code, result.out) == (2, "")
    assert "can't be imported" in result.err
    assert "libcudart.so.13" in result.err


def test_files_that_cannot_be_written_are_found_before_anything_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr(procedure, "run", None)
    (tmp_path / "folder.json").mkdir()
    for name, said in (
        ("missing/r.json", "can't be written"),
        ("folder.json", "it is a folder"),
        ("r.doc", "which format"),
    ):
        result = run("verify", write(tmp_path, "gqa"), "--device", "cpu", "-o", str(tmp_path / name))
        assert (result.code, result.out) == (2, "")
        assert said in result.err


@pytest.mark.parametrize(("fewer", "verdict"), [(0, "confirmed"), (3, "refuted")])
def test_the_longest_sequence_is_pushed_to_its_limit(fewer, verdict, monkeypatch):
    """2^20 B hold 8 sequences of 341 tokens of 384 B, and 512 B are left: less than a token of each."""
    from kvplan.arch.curve import Curve

    right = Curve.tokens_that_fit
    monkeypatch.setattr(Curve, "tokens_that_fit", lambda self, size: right(self, size) - fewer)
    report = verify(tiny.model("gqa"), QUICK)
    row = next(row for row in report.rows if row.what.startswith("longest 8 sequences"))
    assert (row.verdict, row.predicted, row.measured) == (verdict, 341 - fewer, 341 - fewer + bool(fewer))


@pytest.mark.parametrize(
    ("batches", "contexts", "timed"),
    [
        ((2**16,), (), 0),  # a step of so many is refused, and lends its room to no cache
        ((4,), (4096,), 1),  # 6 MiB of cache, more than the usual 1 MiB, in what the limit leaves
        ((1,), (2**20,), 0),
    ],
)
def test_what_is_asked_for_takes_what_the_limit_leaves_and_no_more(batches, contexts, timed, monkeypatch):
    from kvplan.verify.live.ledger import Ledger

    most, right = 0, Ledger.tensor

    def recorded(self, *args):
        nonlocal most
        made = right(self, *args)
        most = max(most, self.taken())
        return made

    monkeypatch.setattr(Ledger, "tensor", recorded)
    report = verify(tiny.model("gqa"), Options(device="cpu", batches=batches, contexts=contexts, memory=300 * 2**20))
    assert report.verdict == "confirmed"
    assert most <= 300 * 2**20 - procedure._CPU_BESIDE
    assert len(report.steps) == timed
    if not timed:
        assert "a larger --memory has" in next(row.rule for row in report.rows if row.what == "steps")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gated delta net", {"num_hidden_layers": 8, "full_attention_interval": 8}),
        ("sliding", {"num_hidden_layers": 6, "sliding_window": 8}),
        ("attention beside mamba2", {}),
        ("gqa", {}),
        ("mla", {}),
    ],
)
def test_pages_of_one_token_refute_nothing(kind, changes):
    """Their tables are long beside one KV head in eight bits: what is allowed for them must not hold another sequence."""
    from dataclasses import replace

    model = tiny.model(kind, **{"num_key_value_heads": 1, **changes})
    report = verify(model, replace(QUICK, kv=parse_kv_format("fp8"), page=1, batches=(1,)))
    assert report.verdict == "confirmed", [row for row in report.rows if row.verdict == "refuted"]
    rows = [row for row in report.rows if row.check == "capacity" and "our accounting" in row.what]
    assert [row.verdict for row in rows] == ["confirmed"]


def test_a_step_that_has_no_room_refutes_no_capacity(monkeypatch):
    """What a reader makes and drops again is in no prediction; the caches stood."""
    from kvplan.verify.live.ledger import OutOfMemory

    def full(*_: object) -> None:
        raise OutOfMemory("partial results ask for 9 B, and the system has no more")

    monkeypatch.setattr("kvplan.verify.live.checks.decoder.Fastest", lambda *_, **__: full)
    report = verify(tiny.model("gqa"), QUICK)
    rows = [row for row in report.rows if row.check == "capacity"]
    assert [(row.verdict, row.predicted) for row in rows] == [("not run", 8), ("not run", 8)]
    assert all("no memory for what a step makes and drops: partial results" in row.rule for row in rows)
    assert report.verdict == "confirmed"


def test_a_budget_that_is_spent_still_times_what_a_line_needs():
    from dataclasses import replace

    report = verify(tiny.model("gqa"), replace(QUICK, budget_s=0, contexts=(64, 128, 256, 512)))
    assert [(step.batch, step.context) for step in report.steps] == [(1, 64), (1, 128)]
    late = [row.what for row in report.rows if row.rule.startswith("out of time")]
    assert late == ["most sequences", "reading 1 x 512 tokens"]


@pytest.mark.parametrize(("budget", "least", "most"), [(0, 3, 3), (600, 20, 99)])
def test_a_slow_machine_takes_few_steps(budget, least, most, monkeypatch):
    """One that is counted, and one for each point that a line needs, once the time is spent; else many."""
    from dataclasses import replace

    from kvplan.verify.live.layers.decoder import Decoder

    taken: list[int] = []
    step = Decoder.step

    def counted(self, ids, at):
        taken.extend([1] * (self.build.ledger.limit is not None))
        return step(self, ids, at)

    monkeypatch.setattr(Decoder, "step", counted)
    report = verify(tiny.model("gqa"), replace(QUICK, budget_s=budget))
    assert report.verdict == "confirmed"
    assert least <= len(taken) <= most


@pytest.mark.parametrize("kind", ["gqa", "sliding", "sparse mla"])
def test_one_reader_for_all_contexts_of_a_batch(kind, monkeypatch):
    """Chosen at the longest: contexts of 64 to 1024 tokens would be in three classes of length."""
    from dataclasses import replace

    from kvplan.verify.live.kernels.readers import Fastest

    asked: list[tuple[int, int]] = []
    pick = Fastest._pick

    def noted(self, query):
        if self.deadline != float("inf"):
            asked.append((query.slots, query.keys.slots))
        return pick(self, query)

    monkeypatch.setattr(timing, "Fastest", type("Noted", (Fastest,), {"_pick": noted}))
    verify(tiny.model(kind), replace(QUICK, batches=(2,), contexts=(64, 256, 1024)))
    slots = [each for each, room in asked if room == 1024]
    assert slots == {"sparse mla": [16]}.get(kind, [1024])


def test_nothing_is_left_behind_when_it_is_interrupted():
    def stop(done: float, following: str) -> None:
        if done > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(tiny.model("gqa"), QUICK, stop)
    import gc

    from kvplan.verify.live.layers.decoder import Decoder

    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is Decoder]


def test_models_that_cannot_be_verified():
    from dataclasses import replace

    with pytest.raises(Unsupported, match="hidden size"):
        verify(replace(tiny.model("gqa"), hidden_size=None), QUICK)
    with pytest.raises(CannotSplit):
        verify(tiny.model("gqa"), replace(QUICK, tp=3))
    with pytest.raises(UsageError, match="rank"):
        verify(tiny.model("gqa"), replace(QUICK, tp=2, rank=5))


def test_a_model_without_weights_shows_its_cache():
    from dataclasses import replace

    report = verify(replace(tiny.model("gqa"), weights=None, layers=(Layer((Attention(4, 2, 16, 16),)),)), QUICK)
    assert report.verdict == "confirmed"
    assert verdicts(report, "bytes")["weights"] == "not run"


def test_without_a_model_it_is_llama():
    assert default_model(Options(device="cpu")).origin.id == "llama-3.1-8b"


def test_without_a_cache_nothing_is_confirmed(tmp_path):
    """A page of a million tokens is more than there is room for; weights alone are no confirmation."""
    result = run("verify", write(tmp_path, "gqa"), "--device", "cpu", "--block-size", "1000000000", "--ctx", "64")
    assert (result.code, result.out) == (2, "")
    assert "no cache was compared" in result.err
    assert "--block-size" in result.err


def test_a_receipt_says_what_nobody_measured(tmp_path):
    """A CPU has no launches to count and no graphs; null, not zero."""
    words = ("verify", write(tmp_path, "gqa"), "--device", "cpu", "--batch", "1", "--ctx", "64, 128", "--json")
    receipt = run(*words).document
    measured = receipt["measured"]
    assert [measured[name] for name in ("launch_floor_s", "kernels", "overhead_s")] == [None, None, None]
    assert measured["graphs"] is False
    assert receipt["versions"]["kvplan"] == kvplan.__version__


def test_a_lone_process_prints_whatever_its_rank_is_said_to_be(tmp_path, monkeypatch):
    config = write(tmp_path, "gqa")
    monkeypatch.setenv("RANK", "1")
    assert "confirmed" in run("verify", config, "--device", "cpu", "--batch", "1", "--ctx", "64, 128").out
    monkeypatch.setenv("WORLD_SIZE", "x")
    result = run("verify", config, "--device", "cpu")
    assert result.code == 2
    assert "WORLD_SIZE is 'x'" in result.err


def test_the_default_format_is_the_checkpoints():
    from dataclasses import replace

    hinted = replace(tiny.model("gqa"), kv_hint=KvFormat(FORMATS["fp8"], FORMATS["fp8"]))
    report = verify(hinted, QUICK)
    assert report.kv_dtype.k == "fp8"
    assert report.verdict == "confirmed"
