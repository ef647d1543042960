"""Several processes: they leave nothing behind, agree before they go on, and say which of them left."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from verify import tiny

from kvplan.errors import UsageError
from kvplan.verify.live import ranks

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def together(code: str, size: int = 2) -> list[tuple[int, str, str]]:
    """Exit code and output of each of `size` processes that run the same code."""
    world = {
        "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }  # fmt: skip
    found = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    said = [one.communicate(timeout=120) for one in found]
    return [(one.returncode, out, err) for one, (out, err) in zip(found, said, strict=True)]


BEGIN = """
import os, sys, torch
torch.set_num_threads(1)
from kvplan.verify.live.ranks import joined
CPU = torch.device("cpu")
RANK = int(os.environ["RANK"])
"""

THREADS = (
    BEGIN
    + """
from torch.utils._python_dispatch import TorchDispatchMode
def threads():
    return len(os.listdir("/proc/self/task"))
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
before = threads()
with joined(2, None, CPU, 1.0) as ranks:
    with Mode():
        torch.ones(3) + 1
    inside = threads()
print(before, inside, threads())
"""
)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux lists them")
def test_no_thread_of_the_group_outlives_it():
    """One that does aborts the process now and then as it exits."""
    for code, out, err in together(THREADS):
        assert code == 0, err
        before, inside, after = map(int, out.split())
        assert inside > before
        assert after == before


VERIFY = (
    BEGIN
    + """
from kvplan.cli import main
from kvplan.verify.live import procedure
procedure._CPU_POOL = 2**20
{before}
words = ["verify", {config!r}, "--device", "cpu", "--tp", "2", "--batch", "1", "--ctx", "64, 128", "--budget-s", "5", "--json"]
sys.exit(main(words))
"""
)


def verified(tmp_path: Path, before: str) -> list[tuple[int, str, str]]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**tiny.COMMON, **tiny.CONFIGS["gqa"]}))
    return together(VERIFY.format(before=before, config=str(path)))


LEAVES = """
from kvplan.verify.live.checks import timing
if RANK == 1:
    def fails(*_, **__):
        raise {error}
    timing.time_ladder = fails
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("MemoryError('no more')", "rank 1 left"),
        ("ValueError('something odd')", "something odd"),
        ("SystemExit(9)", "rank 1 left"),
    ],
)
def test_a_rank_that_fails_is_named_by_the_others(error, said, tmp_path):
    (code, out, err), (other, _, _) = verified(tmp_path, LEAVES.format(error=error))
    assert (code, out) == (2, ""), err
    assert "rank 1 left" in err
    assert said in err
    assert "bug" not in err
    assert other != 0


def test_a_rank_that_is_killed_is_missed(tmp_path):
    killed = "import signal\n" + LEAVES.format(error="SystemExit(os.kill(os.getpid(), signal.SIGKILL))")
    (code, out, err), (other, _, _) = verified(tmp_path, killed)
    assert (code, out, other) == (2, "", -9), err
    assert "another rank left" in err
    assert "dmesg" in err


NO_ROOM = """
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.ledger import NoRoom
right, calls = Decoder.allocate, []
def allocate(self, caching):
    calls.append(caching)
    if RANK == 1 and caching.tokens in {tokens}:
        raise NoRoom("cache", 2, 1)
    right(self, caching)
Decoder.allocate = allocate
"""


def test_where_one_rank_has_no_room_all_go_on_together(tmp_path):
    """The small cache that bytes are counted of, and the one of the ladder."""
    (code, out, err), (other, _, complaint) = verified(tmp_path, NO_ROOM.format(tokens=(37, 128)))
    assert (code, other) == (0, 0), (err, complaint)
    report = json.loads(out)
    rows = {row["what"]: row for row in report["rows"]}
    assert rows["cache, 2 x 37 tokens"]["verdict"] == "not run"
    assert "rank 1" in rows["cache, 2 x 37 tokens"]["rule"]
    assert report["steps"] == []
    assert any("ran out of memory" in note for note in report["notes"])


def test_a_master_that_nobody_knows_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(ranks, "_MEET_S", 1.0)
    world = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": "29500"}
    for name, value in world.items():
        monkeypatch.setenv(name, value)
    began = time.monotonic()
    with pytest.raises(UsageError, match="can't meet"), ranks.joined(2, None, CPU, 0.5):
        pass
    assert time.monotonic() - began < 4  # the second and a half, one for torch to say it itself, and some


def test_both_steps_of_meeting_share_one_patience(monkeypatch):
    """A store that took most of it leaves the group the rest."""
    given: list[float] = []

    class Store:
        def set_timeout(self, patience):
            given.append(patience.total_seconds())

    def slow(*_, timeout):
        time.sleep(1.5)
        yield Store(), 0, 1

    monkeypatch.setattr(torch.distributed, "rendezvous", slow)
    monkeypatch.setattr(torch.distributed, "PrefixStore", lambda _, store: store)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: None)
    ranks._meet(CPU, timedelta(seconds=10))
    assert given == [pytest.approx(8.5, abs=0.3), 10]
