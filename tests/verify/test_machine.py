"""Devices that can't be used say so in a sentence; what was asked for is never exceeded. GPUs here are made up."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from verify import tiny

from kvplan.api import load_model
from kvplan.errors import UsageError
from kvplan.verify import Options, prints, torchrun, verify
from kvplan.verify.live import ledger, machine, procedure
from kvplan.verify.live.checks import capacity
from kvplan.verify.live.checks.found import Found
from kvplan.verify.live.layers.mixer import Alone
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.ranks import Together
from kvplan.verify.parts import ExpertsPart

pytestmark = pytest.mark.torch
GIB = 2**30
ROOT = Path(__file__).parents[2]


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that answers questions and computes nothing."""
    found = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (100 * GIB, 140 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    return found


def test_a_gpu_is_described(gpu):
    device, found = machine.open_device("auto")
    assert str(device) == "cuda:0"
    assert (found.name, found.total, found.free) == ("NVIDIA H200", 140 * GIB, 100 * GIB)
    assert (found.capability, found.cores, found.mig) == ((9, 0), 132, False)
    gpu.name = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert machine.open_device("cuda:0")[1].mig


@pytest.mark.parametrize(
    ("free", "own", "others"),
    [(100, 0, 40), (139, 0, 0), (138, 0, 0), (137, 0, 3), (99, 40, 0), (60, 40, 40)],
)
def test_a_gpu_that_others_use_too(free, own, others, gpu, monkeypatch):
    """Of 140 GiB: what isn't free and not torch's own; below 2 GiB it may be the context of this very process."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free * GIB, 140 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: own * GIB)
    assert machine.open_device("cuda")[1].others == others * GIB


def test_a_busy_gpu_is_said_to_be_one():
    busy = machine.Machine("cuda:0", "NVIDIA Test", 140 * GIB, 100 * GIB, others=40 * GIB)
    known = procedure._prepare(tiny.model("gqa"), Options(device="cuda"), torch.device("cuda"), busy, Alone())
    assert [note for note in known.notes if "40.00 GiB" in note and "other processes" in note]
    full = machine.Machine("cuda:0", "NVIDIA Test", 140 * GIB, GIB // 8, others=139 * GIB)
    for options in (Options(device="cuda"), Options(device="cuda", memory=GIB)):
        with pytest.raises(UsageError) as refused:
            procedure._prepare(tiny.model("gqa"), options, torch.device("cuda"), full, Alone())
        assert "other processes hold 139.0 GiB" in str(refused.value.problem.hint)
        assert "nvidia-smi" in str(refused.value.problem.hint)
    idle = machine.Machine("cuda:0", "NVIDIA Test", 140 * GIB, 139 * GIB)
    notes = procedure._prepare(tiny.model("gqa"), Options(device="cuda"), torch.device("cuda"), idle, Alone()).notes
    assert not any("other processes" in note for note in notes)


def test_a_gpu_that_is_too_old(gpu):
    gpu.major, gpu.minor = 6, 1
    with pytest.raises(UsageError, match="too old") as refused:
        machine.open_device("cuda")
    assert "6.1" in str(refused.value.problem.cause)


def test_a_gpu_that_is_busy(gpu, monkeypatch):
    def busy(_):
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable\nCompile with ...")

    monkeypatch.setattr(torch.cuda, "mem_get_info", busy)
    with pytest.raises(UsageError, match="can't be used") as refused:
        machine.open_device("cuda")
    assert refused.value.problem.cause == "CUDA error: all CUDA-capable devices are busy or unavailable"
    assert "another process" in str(refused.value.problem.hint)


def test_a_gpu_that_is_not_there(gpu):
    with pytest.raises(UsageError, match="there is no cuda:3"):
        machine.open_device("cuda:3")


def test_what_a_container_caches_of_files_is_free(monkeypatch, tmp_path):
    for name, text in (
        ("memory.max", "1000\n"),
        ("memory.current", "900\n"),
        ("memory.stat", "anon 300\nfile 600\nshmem 100\ninactive_file 350\nactive_file 150\n"),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "_MOUNT", tmp_path)
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "nothing")
    assert machine._container_room(10**6) == 1000 - 900 + 350 + 150
    assert machine._container_room(50) == 50
    (tmp_path / "memory.max").write_text("max\n")
    assert machine._container_room(10**6) == 10**6


def test_a_container_within_a_container(monkeypatch, tmp_path):
    """The tightest counts, wherever it stands: here the middle one of three has 300 left, and its child more."""
    (tmp_path / "self").write_text("12:cpu,cpuacct:/x\n0::/slice/job/step\n")
    for group, most, used in (("slice", "max", 900), ("slice/job", "1000", 700), ("slice/job/step", "900", 100)):
        (tmp_path / group).mkdir()
        (tmp_path / group / "memory.max").write_text(f"{most}\n")
        (tmp_path / group / "memory.current").write_text(f"{used}\n")
        (tmp_path / group / "memory.stat").write_text("inactive_file 0\n")
    monkeypatch.setattr(machine, "_MOUNT", tmp_path)
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "self")
    assert machine._container_room(10**6) == 300


def test_a_container_of_the_first_version(monkeypatch, tmp_path):
    """Its files have other names, and without a limit it says nearly 2^63."""
    (tmp_path / "self").write_text("4:memory:/docker/a\n3:cpuset:/\n0::/\n")
    for group, most in (("memory/docker", 9223372036854771712), ("memory/docker/a", 5000)):
        (tmp_path / group).mkdir(parents=True)
        (tmp_path / group / "memory.limit_in_bytes").write_text(f"{most}\n")
        (tmp_path / group / "memory.usage_in_bytes").write_text("4000\n")
        (tmp_path / group / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 20\n")
    monkeypatch.setattr(machine, "_MOUNT", tmp_path)
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "self")
    assert machine._container_room(10**6) == 5000 - 4000 + 50


def test_processes_of_one_machine_share_its_memory(monkeypatch):
    alone = machine.open_device("cpu")[1].free
    for name, value in {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "RANK": "5", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert 0 < machine.open_device("cpu")[1].free < alone / 3


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"WORLD_SIZE": "x"}, "WORLD_SIZE is 'x'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is '0'"),
        ({"WORLD_SIZE": "2"}, "RANK isn't set"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK is 2"),
        ({"WORLD_SIZE": "2", "RANK": "-1"}, "RANK is '-1'"),
    ],
)
def test_an_environment_that_is_not_torchruns(environment, said, monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said) as refused:
        torchrun.rank()
    assert "torchrun" in str(refused.value.problem.hint)


def test_a_lone_process_is_the_one_that_prints(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "1")
    assert prints()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not prints()


def test_a_torch_that_is_too_old(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.1.0+cu118")
    with pytest.raises(UsageError, match="too old"):
        machine.open_device("cpu")


def test_out_of_memory_is_a_sentence(monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...")

    monkeypatch.setattr(procedure, "_run", full)
    with pytest.raises(UsageError, match="ran out of memory") as refused:
        verify(tiny.model("gqa"), Options(device="cpu"))
    assert refused.value.problem.cause == "CUDA out of memory"
    assert "--memory" in str(refused.value.problem.hint)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried ..."
        ),
        MemoryError(),
        ledger.OutOfMemory("cache asks for 12 B, and the system has no more"),
    ],
)
def test_a_cpu_without_memory_says_the_same(error, monkeypatch):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(procedure, "_run", full)
    with pytest.raises(UsageError, match="ran out of memory"):
        verify(tiny.model("gqa"), Options(device="cpu"))


def test_an_error_of_another_kind_stays_what_it_is(monkeypatch):
    def wrong(*_, **__):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(procedure, "_run", wrong)
    with pytest.raises(RuntimeError, match="shapes"):
        verify(tiny.model("gqa"), Options(device="cpu"))


def test_the_ledger_says_what_the_system_refused(monkeypatch):
    def empty(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch, "empty", empty)
    with pytest.raises(ledger.OutOfMemory, match="cache asks for 40 B"):
        Ledger(torch.device("cpu"), None).tensor((10,), torch.float32, "cache")


def test_ranks_build_what_the_fullest_device_holds():
    """Two ranks of which the other one has a third: both take 90 % of that, and choose the same layers."""

    class Two(Together):
        def __init__(self) -> None:
            self.rank, self.size = 0, 2

        def gather(self, mine):
            return (mine, GIB)

    here = machine.Machine("cuda:0", "NVIDIA Test", 4 * GIB, 3 * GIB)
    known = procedure._prepare(tiny.model("gqa"), Options(device="cuda", tp=2), torch.device("cuda"), here, Two())
    assert known.limit == GIB * 9 // 10
    with pytest.raises(UsageError, match=r"2\.00 GiB is more than the 1\.00 GiB"):
        procedure._prepare(
            tiny.model("gqa"), Options(device="cuda", tp=2, memory=2 * GIB), torch.device("cuda"), here, Two()
        )


def test_ranks_have_talked_before_memory_is_looked_at(monkeypatch):
    """NCCL takes its buffers with the first collective of each sort; later they would pass for the model's."""
    from types import SimpleNamespace

    from kvplan.verify.live import ranks

    said: list[str] = []

    def all_gather(found, mine):
        said.append("all_gather")
        for one in found:
            one.copy_(mine)

    fake = SimpleNamespace(
        DistError=RuntimeError, get_rank=lambda: 0, get_world_size=lambda: 2, all_gather=all_gather,
        init_process_group=lambda *_, **__: said.append("init"), all_reduce=lambda _: said.append("all_reduce"),
        destroy_process_group=lambda: said.append("destroy"), is_initialized=lambda: True,
        rendezvous=lambda *_, **__: iter([(SimpleNamespace(set_timeout=lambda _: None), 0, 2)]), PrefixStore=lambda *_: None,
    )  # fmt: skip
    monkeypatch.setattr(ranks, "dist", fake)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with ranks.joined(2, None, torch.device("cpu"), 1.0):
        assert said[:2] == ["init", "all_reduce"]
        assert "all_gather" in said
        assert "destroy" not in said


def test_a_first_reduction_that_fails_is_no_meeting(monkeypatch):
    """NCCL connects with its first collective: what it complains of then is about the ranks, not about kvplan."""
    from kvplan.verify.live import ranks

    def refuses(self, partial):
        raise RuntimeError("NCCL error: unhandled system error")

    monkeypatch.setattr(ranks, "_meet", lambda *_: None)
    monkeypatch.setattr(ranks.Together, "__init__", lambda *_: None)
    monkeypatch.setattr(ranks.Together, "add_up", refuses)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="can't meet"), ranks.joined(2, None, torch.device("cpu"), 1.0):
        pass


def test_ranks_that_cannot_meet(monkeypatch):
    from kvplan.verify.live.ranks import joined

    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"WORLD_SIZE": "2", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="can't meet") as refused, joined(2, None, torch.device("cpu"), 1.0):
        pass
    assert "MASTER_ADDR" in str(refused.value.problem.cause)


def on_a_cpu(name: str, tp: int, free: int, **wishes: int) -> Found:
    """What is chosen of a bundled model on a CPU with that much free."""
    here = machine.Machine("cpu", "a CPU", 2 * free, free)
    return procedure._prepare(
        load_model(name, offline=True), Options("cpu", tp, **wishes), torch.device("cpu"), here, Alone()
    )


@pytest.mark.parametrize(
    ("name", "tp", "largest"),
    [
        # Experts of one rank in bf16: 128 of 3 x 2880 x 720, 512 of 3 x 2048 x 256, 256 of 3 x 7168 x 256.
        ("gpt-oss-120b", 4, 2 * 128 * 3 * 2880 * 720),
        ("qwen3-next-80b-a3b", 2, 2 * 512 * 3 * 2048 * 256),
        ("deepseek-v3", 8, 2 * 256 * 3 * 7168 * 256),
    ],
)
def test_a_cpu_takes_as_much_as_one_layer_of_each_kind_needs(name, tp, largest):
    known = on_a_cpu(name, tp, 22 * GIB)
    assert largest < known.limit <= 22 * GIB // 3
    assert any(layer.feed_forwards and isinstance(layer.feed_forwards[0], ExpertsPart) for layer in known.plan.layers)
    assert known.sizing.unseen == ()
    assert not any("none was built" in note for note in known.notes)


def test_a_cpu_takes_no_more_than_usual_where_that_is_enough():
    assert on_a_cpu("llama-3.1-8b", 1, 22 * GIB).limit == 3 * GIB // 2


def test_kinds_that_a_cpu_has_no_room_for_are_said():
    """A third of 6 GiB is too little for a layer of 2.7 GiB of experts; what to type is enough for one."""
    [note] = [note for note in on_a_cpu("deepseek-v3", 8, 6 * GIB).notes if "none was built" in note]
    assert "latent with experts, as layer 3" in note
    enough = int(note.split("--memory ")[1].split("MiB")[0])
    assert on_a_cpu("deepseek-v3", 8, 6 * GIB, memory=enough * 2**20).sizing.unseen == ()
    assert on_a_cpu("deepseek-v3", 8, 6 * GIB, memory=(enough - 1) * 2**20).sizing.unseen != ()
    [asked] = [note for note in on_a_cpu("deepseek-v3", 8, 22 * GIB, layers=1).notes if "none was built" in note]
    assert "More --layers" in asked


WEIGHED = """
import sys
sys.path.insert(0, {root!r})
from kvplan.api import load_model
from kvplan.verify import Options, verify
import kvplan.verify.live.procedure
import torch
torch.set_num_threads(1)
def most():
    # Of this program alone: ru_maxrss begins with what the process that forked it had.
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
before = most()
verify(load_model("llama-3.2-1b", offline=True), Options("cpu", memory={asked}, budget_s=9))
print(most() - before)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs Linux, which says what a process took at most"
)
def test_a_process_takes_no_more_memory_than_asked():
    """Torch's own modules, the copy that is timed and what checks make included, beside a process that only imports."""
    asked = 600 * 2**20
    code = WEIGHED.format(root=str(ROOT), asked=asked)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert 300 * 2**20 < int(done.stdout) <= asked


def test_large_weights_of_a_cpu_are_random_all_over():
    rows = Ledger(torch.device("cpu"), None).weight((1000, 16384), torch.bfloat16, fan_in=3)
    assert float(rows.abs().max()) <= 1
    assert float(rows[-1].float().std()) == pytest.approx(3**-0.5, rel=0.1)
    assert len({tuple(row.tolist()) for row in rows[:, :8]}) == 1000


def test_no_more_memory_than_asked(monkeypatch):
    taken: list[int] = []
    allocate = Ledger.tensor

    def watched(self, shape, dtype, account):
        made = allocate(self, shape, dtype, account)
        if self.limit is not None:
            taken.append(self.taken())
        return made

    monkeypatch.setattr(Ledger, "tensor", watched)
    monkeypatch.setattr(procedure, "_CPU_POOL", 2**20)
    asked = 330 * 2**20
    report = verify(tiny.model("gqa"), Options(device="cpu", memory=asked, batches=(1,), contexts=(64, 128)))
    assert report.built is not None
    assert report.built.memory_limit_bytes == asked
    assert 0 < max(taken) <= asked


def allocating(monkeypatch, backend: str = "native") -> list[float]:
    """A GPU of 1000 bytes, as far as the allocator is asked; the shares that the process was held to."""
    held: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (900, 1000))
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, _: held.append(share))
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    return held


def test_torch_is_held_to_what_was_asked(monkeypatch):
    from kvplan.verify.live.machine import hold_to

    held = allocating(monkeypatch)
    hold_to(torch.device("cuda"), 500)
    hold_to(torch.device("cuda"), None)
    hold_to(torch.device("cpu"), 500)
    assert held == [0.5, 1.0]


def test_the_whole_run_is_held_to_its_limit(monkeypatch):
    """From the first tensor on, and until everything is given back; the largest batch to its plan in between."""

    said: list[int | None] = []
    for module in (procedure, capacity):
        monkeypatch.setattr(module, "hold_to", lambda _, limit: said.append(limit))
    monkeypatch.setattr(procedure, "_CPU_POOL", 2**20)
    asked = 330 * 2**20
    verify(tiny.model("gqa"), Options(device="cpu", memory=asked, batches=(1,), contexts=(64, 128)))
    assert said[0] == said[-1] == asked
    assert all(limit is not None and limit <= asked for limit in said)


@pytest.mark.parametrize(
    ("backend", "conf", "verdict"),
    [
        ("native", None, "refuted"),
        ("native", "expandable_segments:True", "reported"),
        ("cudaMallocAsync", None, "reported"),
    ],
)
def test_segments_are_judged_where_the_rules_describe_them(backend, conf, verdict, monkeypatch):
    from types import SimpleNamespace

    from kvplan.verify.live.checks.bytes_held import Taken, allocator
    from kvplan.verify.run import versions

    allocating(monkeypatch, backend)
    if conf is not None:
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", conf)
    monkeypatch.setattr(Taken, "now", lambda _: Taken(100, 2**30, 0, None))
    ledger = SimpleNamespace(device=torch.device("cuda"), accounts=(), tensors=lambda _: ())
    row = list(allocator(ledger, Taken(0, 0, 2**30, None), 100))[-1]  # type: ignore[arg-type]
    assert (row.what, row.verdict) == ("driver", verdict)
    assert versions()["allocator"] == backend
    assert versions().get("PYTORCH_CUDA_ALLOC_CONF") == conf
