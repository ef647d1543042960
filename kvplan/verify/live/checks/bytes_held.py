"""Check b: tensors, allocator and driver hold the predicted bytes."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from kvplan.units import MIB
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Caching
from kvplan.verify.live.ledger import Ledger, bytes_of
from kvplan.verify.live.machine import allocator_settings, resident
from kvplan.verify.parts import DeltaPart, Kept, LatentPart, MambaPart
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import Row, exact, not_run, reported, within

_BLOCK, _LARGE, _LARGE_ROUND, _SEGMENT = 512, 10 * MIB, 2 * MIB, 20 * MIB
"""torch's caching allocator: sizes round up to 512 B; from 10 MiB each has a segment of its own in steps of 2 MiB,
smaller ones share segments of 2 or 20 MiB. Source: torch 2.13 c10/core/AllocatorConfig.h."""

_BESIDE = 20 * MIB
"""Bytes that the driver may take beside torch's segments, for example to load kernels when they are first used."""

_LEAST_RESIDENT = 256 * MIB


@dataclass(frozen=True, slots=True)
class Taken:
    """Memory at one moment, in bytes.

    allocated: asked of torch. reserved: taken by torch from the driver. free: left on the GPU for all processes.
    resident: of a process on a CPU.
    """

    allocated: int
    reserved: int
    free: int
    resident: int | None

    @classmethod
    def now(cls, device: torch.device) -> Taken:
        """Memory now."""
        if device.type == "cuda":
            gc.collect()
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()  # what earlier work left cached would hide what is taken next
            # As asked for: "allocated" counts what is left of a segment too, up to 1 MiB behind a large tensor.
            asked = torch.cuda.memory_stats(device).get("requested_bytes.all.current", 0)
            free = torch.cuda.mem_get_info(device)[0]
            return cls(asked or torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device), free, None)
        return cls(0, 0, 0, resident())


def weights(predicted: Predicted, decoder: Decoder) -> Iterator[Row]:
    """Rows for the rank's parameters: those whose sizes modules know, then those that are only held."""
    ledger = decoder.build.ledger
    measured, held = bytes_of(ledger.tensors("weights")), bytes_of(ledger.tensors("held"))
    expected, reason = predicted.weights_bytes(), lacking(predicted)
    if expected is None or reason is not None:
        yield not_run("bytes", "weights", "B", reason or "", expected)
    else:
        yield exact("bytes", f"weights in {predicted.model.dtype.name}", "B", expected - held, measured)
    if held:
        because = "held as the inventory lists it, for no module here knows its sizes: nothing is claimed"
        yield reported("bytes", "weights that are only held", "B", None, held, because)


def lacking(predicted: Predicted) -> str | None:
    """Why nothing exact can be said about weights; None if all are listed."""
    if predicted.model.weights is None:
        return "the model has no inventory of weights; its attention alone was built"
    missing = predicted.model.weights.missing
    return f"the inventory lacks {', '.join(missing)}" if missing else None


def caches(predicted: Predicted, decoder: Decoder, caching: Caching) -> Iterator[Row]:
    """Rows for the live tensors of each growth law, and of all together."""
    held = decoder.stored()
    expected = predicted.by_kind(caching.tokens)
    mixers = decoder.plan.mixers
    states = {part.kind: part.kept for part in mixers if isinstance(part, DeltaPart | MambaPart)}
    for part in mixers:
        if isinstance(part, LatentPart) and part.indexer is not None:
            states["indexer"] = part.indexer.kept
    what = f"{caching.batch} x {caching.tokens:,} tokens"
    for kind in dict.fromkeys((*expected, *held)):
        measured = bytes_of(held.get(kind, ()))
        size = caching.batch * expected.get(kind, 0)
        yield _cache(f"cache, {kind}, {what}", size, measured, [states[kind]] if kind in states else [])
    every = tuple(tensor for tensors in held.values() for tensor in tensors)
    size = caching.batch * predicted.cache_bytes(caching.tokens)
    yield _cache(f"cache, {what}", size, bytes_of(every), list(states.values()))


def _cache(what: str, expected: int, measured: int, states: Sequence[Kept]) -> Row:
    """Exact, except for states or index keys whose format both sides read from the same config."""
    row = exact("bytes", what, "B", expected, measured, core=True)
    whose = "; ".join(dict.fromkeys(state.whose for state in states))
    if row.verdict == "confirmed" and not all(state.checked for state in states):
        return replace(row, verdict="reported", rule=f"equal, with {whose}")
    return row if not whose else replace(row, rule=f"{row.rule}, {whose}")


def allocator(ledger: Ledger, before: Taken, expected: int) -> Iterator[Row]:
    """Rows for the same bytes by the allocator and the driver (on a CPU, by the operating system)."""
    now = Taken.now(ledger.device)
    sizes = [bytes_of((tensor,)) for account in ledger.accounts for tensor in ledger.tensors(account)]
    if ledger.device.type == "cuda":
        slack = _BLOCK * len(sizes)
        because = f"each of {len(sizes)} tensors rounds up to {_BLOCK} B"
        yield within("bytes", "allocator", "B", expected, now.allocated - before.allocated, slack, because)
        yield _driver(sizes, expected, before, now)
        return
    if now.resident is None or before.resident is None or expected < _LEAST_RESIDENT:
        yield not_run("bytes", "resident memory", "B", "less than 256 MiB, or the system doesn't say", expected)
        return
    slack = 64 * MIB + expected // 50
    because = "pages and what the process drops meanwhile: within 64 MiB + 2 %"
    yield within("bytes", "resident memory", "B", expected, now.resident - before.resident, slack, because)


def _driver(sizes: Sequence[int], expected: int, before: Taken, now: Taken) -> Row:
    """The GPU's change in free memory, which is torch's alone if torch's own figure changed as much."""
    taken, own = before.free - now.free, now.reserved - before.reserved
    configured = allocator_settings()
    if configured != {"allocator": "native"}:
        because = f"{' '.join(filter(None, configured.values()))}: whose segments no rule here describes"
        return reported("bytes", "driver", "B", expected, taken, because)
    if abs(taken - own) > _BESIDE:
        because = f"torch itself took {own:,} B of it: the rest is another process's, and nothing is claimed"
        return reported("bytes", "driver", "B", expected, taken, because)
    small = sum(size for size in sizes if size < _LARGE)
    slack = _LARGE_ROUND * sum(size >= _LARGE for size in sizes) + small // 4 + 2 * _SEGMENT + _BESIDE
    because = "large tensors round up to 2 MiB, small ones share segments of 2 and 20 MiB"
    return within("bytes", "driver", "B", expected, taken, slack, because)
