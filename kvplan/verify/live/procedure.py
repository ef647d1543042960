"""One verification from device to results: choose a size, build, check, and give everything back."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.errors import Unsupported, UsageError
from kvplan.hardware.gpu import Gpu
from kvplan.units import MIB, format_bytes
from kvplan.verify.blueprint import blueprint
from kvplan.verify.live.checks import bytes_held, recompute
from kvplan.verify.live.checks.bytes_held import Taken
from kvplan.verify.live.checks.decoder import after_weights
from kvplan.verify.live.checks.formats import round_trips
from kvplan.verify.live.checks.found import Found
from kvplan.verify.live.checks.kernels import kernels_agree
from kvplan.verify.live.kernels import fused
from kvplan.verify.live.kernels.readers import triton_works
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Alone, Build
from kvplan.verify.live.ledger import Ledger, NoRoom, OutOfMemory, no_memory
from kvplan.verify.live.machine import Machine, hold_to, open_device
from kvplan.verify.live.ranks import Together, everybody, joined
from kvplan.verify.live.rows import Layout
from kvplan.verify.live.stored import stored
from kvplan.verify.options import HELD_FORMATS, Options, Progress
from kvplan.verify.predict import Predicted
from kvplan.verify.reduce import read_by, reduced
from kvplan.verify.sizing import FOR_WANT_OF_MEMORY, Sizing, bytes_of_each, choose
from kvplan.verify.torchrun import world_size
from kvplan.verify.verdict import Row, worst

_CPU_VOCABULARY = 4096
_CPU_MEMORY = 3 * 2**29
_CPU_POOL = 32 * MIB
_BESIDE, _CPU_BESIDE = 224 * MIB, 288 * MIB
"""Room for what is in no ledger: activations, and on a CPU 150 MiB of torch's own modules, the copy that is timed and what
comparing makes and drops."""
_KEPT_BACK = 0.6
"""Share of the time that is left for everything after the checks of kernels."""


def run(model: Model, options: Options, progress: Progress) -> Found:
    """Verify one rank's share of a model on this machine; under torchrun, each rank its own.

    Raises: UsageError for a device that can't be used or too little memory; Unsupported; CannotSplit.
    """
    began = time.monotonic()
    device, machine = open_device(options.device)
    _single_rank(options)
    with joined(options.tp, options.rank, device, options.budget_s) as ranks, _manners(device):
        known = _prepare(model, options, device, machine, ranks)
        known.rank = None if isinstance(ranks, Together) else options.rank or 0
        _run(known, options, device, ranks, progress, began + options.budget_s)
        known.rows = worst(everybody(ranks, known.rows))
    return known


def _single_rank(options: Options) -> None:
    rank = options.rank or 0
    if not 0 <= rank < options.tp:
        hint = f"ranks are 0 to {options.tp - 1}" if options.tp > 1 else f"say of how many: --tp 8 --rank {rank}"
        raise UsageError(f"--rank {rank} is not one of --tp {options.tp}", hint=hint)


@contextmanager
def _manners(device: torch.device) -> Iterator[None]:
    """Afterwards, even after Ctrl-C, the device has its memory back and torch its defaults."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # an environment may ask for TF32, which is off by 0.001
    try:
        yield
    except (torch.OutOfMemoryError, OutOfMemory, MemoryError) as error:
        raise _ran_out(error) from error
    except RuntimeError as error:
        if no_memory(error):
            raise _ran_out(error) from error
        raise
    finally:
        fused.use_triton(on=False)
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        if device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
            hold_to(device, None)


def _ran_out(error: BaseException) -> UsageError:
    return UsageError(
        "the device ran out of memory", cause=str(error).split(". ")[0] or None,
        hint="another process may be using it, or a limit (ulimit -v) is set; ask for less with --memory",
    )  # fmt: skip


def _prepare(model: Model, options: Options, device: torch.device, machine: Machine, ranks: Alone | Together) -> Found:
    """Choose the layers that fit and everything that follows, by the fullest device and so the same on all ranks."""
    cuda = device.type == "cuda"
    free = min(everybody(ranks, machine.free))
    if model.dtype.name not in ("bf16", "fp16", "fp32"):
        raise Unsupported(f"verify can't compute in {model.dtype.name}", hint="it computes in bf16, fp16 and fp32")
    vocab = None if cuda else _CPU_VOCABULARY * options.tp
    whole = reduced(model, tuple(range(len(model.layers))), vocab)
    ends = _ends_bytes(whole, options.tp)
    limit = options.memory or (free * 9 // 10 if cuda else _of_a_cpu(whole, options, free, ends))
    if limit > free:
        has = "has free" if world_size() == 1 else "has free for each rank"
        raise UsageError(
            f"--memory {format_bytes(limit)} is more than the {format_bytes(free)} that {machine.name} {has}",
            hint=machine.busy,
        )
    budget = limit - _besides(limit, ends, cuda=cuda)
    if budget <= 0:
        raise UsageError(
            f"{format_bytes(limit)} is too little to build anything",
            cause=f"{format_bytes(limit - budget)} is needed besides the layers",
            hint=machine.busy or "give more with --memory",
        )  # fmt: skip
    sizing = choose(whole, options.tp, budget, options.layers, limit - budget)
    kept = reduced(whole, sizing.keep, vocab)
    kv = options.kv or model.kv_auto
    plan = blueprint(kept, options.tp)
    _check_format(kv)
    read = None if kept.weights is None else read_by(kept.weights, plan, ranks.rank)
    found = Found(
        machine, _gpu(machine), kept, plan, sizing, limit, _CPU_POOL, _CPU_BESIDE, None,
        Predicted(kept, options.tp, kv, options.page, read),
    )  # fmt: skip
    if vocab is not None and model.vocab_size and vocab < model.vocab_size:
        found.notes.append(f"a CPU takes {vocab:,} rows of the vocabulary, not {model.vocab_size:,}")
    if sizing.unseen:
        found.notes.append(_unseen(sizing, whole, options, ends, cuda=cuda))
    if machine.busy is not None:
        found.notes.append(f"{machine.busy}: what they do meanwhile slows steps down and moves what the driver says")
    if options.tp > 1 and world_size() == 1:
        found.notes.append("one rank alone: no all-reduce was run or timed")
    return found


def _besides(limit: int, ends: int, *, cuda: bool) -> int:
    """Bytes of `limit` that weights of layers may not take."""
    return ends + (limit // 4 + _BESIDE if cuda else _CPU_POOL + _CPU_BESIDE)


def _of_a_cpu(model: Model, options: Options, free: int, ends: int) -> int:
    """Default memory on a CPU: the usual, or more if one layer of each kind needs it; at most a third of what is free."""
    needed = bytes_of_each(model, options.tp, options.layers) + _besides(0, ends, cuda=False)
    return min(free // 3, max(_CPU_MEMORY, needed))


def _unseen(sizing: Sizing, model: Model, options: Options, ends: int, *, cuda: bool) -> str:
    """A note on kinds of layers that were left out, and how to include them."""
    needed = bytes_of_each(model, options.tp) + _besides(0, ends, cuda=cuda)
    needed = -(-needed * 4 // 3) if cuda else needed  # a quarter of a GPU's is kept for caches
    short = any(reason == FOR_WANT_OF_MEMORY for reason, _ in sizing.skipped)
    return (
        f"of these kinds of layers none was built, and nothing is confirmed: {'; '.join(sizing.unseen)}. "
        f"{f'--memory {-(-needed // MIB)}MiB' if short else 'More --layers'} builds one of each"
    )


def _check_format(kv: KvFormat) -> None:
    for one in (kv.k, kv.v):
        if stored(one, 32) is None:
            raise Unsupported(
                f"verify can't store a cache in {one.name}", cause="no torch dtype holds its elements and scales",
                hint=f"--kv-dtype with one that it can: {', '.join(HELD_FORMATS)}",
            )  # fmt: skip


def _ends_bytes(model: Model, tp: int) -> int:
    if model.weights is None:
        return 0
    return replace(model.weights, layers=()).bytes_on_rank(Parallel(tp=tp))


def _gpu(machine: Machine) -> Gpu | None:
    """The record of this GPU; None for a CPU, a MIG slice or an unknown GPU."""
    if not machine.is_cuda or machine.mig:
        return None
    from kvplan.sources.gpus import gpus_of_driver_name

    known = gpus_of_driver_name(machine.name)
    return min(known, key=lambda gpu: abs(gpu.memory.value - machine.total), default=None)


def _run(
    known: Found, options: Options, device: torch.device, ranks: Alone | Together, progress: Progress, deadline: float
) -> None:
    predicted, plan = known.kv, known.plan
    rows: list[Row] = []
    layout = Layout(options.page)
    hold_to(device, known.limit)  # torch takes no more than was asked, counted in advance or not
    if device.type == "cpu" and isinstance(ranks, Together):
        torch.set_num_threads(1)
    progress(0.02, "recomputing small relatives in 32 bit")
    rows += recompute.recompute(plan, predicted.kv, layout, device)
    rows += round_trips(plan, predicted.kv, device)
    why_not = next(filter(None, everybody(ranks, triton_works(device))), None)
    fused.use_triton(on=why_not is None)
    rows += kernels_agree(plan, predicted.kv, layout, device, why_not, deadline - _KEPT_BACK * options.budget_s)
    if why_not is not None and device.type == "cuda":
        known.notes.append(f"Triton kernels were not used: {why_not}")

    progress(0.15, f"making {format_bytes(predicted.weights_bytes() or 0)} of weights")
    before = Taken.now(device)
    ledger = Ledger(device, known.limit, options.seed)
    build = Build(ledger, plan.hidden, _dtype(known.model.dtype.name), ranks)
    try:
        decoder = Decoder(plan, build)
    except NoRoom as refused:
        raise UsageError(
            f"the weights don't fit: {refused}", hint="give more with --memory, or fewer --layers"
        ) from refused
    known.weights_bytes = ledger.taken()
    rows += bytes_held.weights(predicted, decoder)
    rows += after_weights(known, options, decoder, before, progress, deadline)
    if device.type == "cuda" and not known.machine.others:  # otherwise it could be another process's
        torch.cuda.synchronize(device)
        held = known.machine.free - torch.cuda.mem_get_info(device)[0]
        known.runtime_bytes = (
            known.machine.total - known.machine.free + max(0, held - torch.cuda.memory_reserved(device))
        )
    known.rows = tuple(rows)
    progress(1.0, "done")


def _dtype(name: str) -> torch.dtype:
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]
