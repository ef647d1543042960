"""Check c: the predicted batch fits and decodes, and the next one is refused."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kvplan.verify.live.attend import Reader
from kvplan.verify.live.decoder import Decoder
from kvplan.verify.live.ledger import OUT_OF_ROOM
from kvplan.verify.live.mixer import Caching
from kvplan.verify.live.rows import Layout
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import Row, exact, not_run


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be shown: that `batch` sequences of `tokens` are the most that fit. limit: bytes for everything."""

    batch: int
    tokens: int
    limit: int


def capacity(
    predicted: Predicted, decoder: Decoder, plan: Plan, workspace: int, reader: Reader, ids: Tensor
) -> Iterator[Row]:
    """Allocate the predicted batch, decode one token of each sequence at its full length, then ask for one more.

    workspace: bytes that torch's allocator may take beyond the plan's limit, for what a step makes and drops again.
    """
    device = decoder.build.ledger.device
    what = f"sequences of {plan.tokens:,} tokens in {plan.limit:,} B"
    layout = Layout(predicted.page)
    limited = _limited(device, plan.limit + workspace)
    try:
        fits = _decodes(decoder, Caching(plan.batch, plan.tokens, predicted.kv, layout), reader, ids)
        clean(decoder)
        one_more = Caching(plan.batch + 1, plan.tokens, predicted.kv, layout)
        ours = _accepts(decoder, one_more)
        most = plan.batch + ours if fits else 0
        yield exact("capacity", f"most {what}, by our accounting", "sequences", plan.batch, most)
        if device.type == "cuda" and limited:
            theirs = _accepts(decoder, one_more, accounted=False)
            most = plan.batch + theirs if fits else 0
            yield exact("capacity", f"most {what}, by the allocator", "sequences", plan.batch, most)
        else:
            because = (
                "a CPU's allocator has no limit of its own" if device.type == "cpu" else "torch can't limit this device"
            )
            yield not_run("capacity", f"most {what}, by the allocator", "sequences", because, plan.batch)
    finally:
        clean(decoder)
        if limited:
            torch.cuda.set_per_process_memory_fraction(1.0, device)


def _limited(device: torch.device, limit: int) -> bool:
    """Hold torch's own allocator to the same limit."""
    if device.type != "cuda":
        return False
    total = torch.cuda.mem_get_info(device)[1]
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
    return True


def _decodes(decoder: Decoder, caching: Caching, reader: Reader, ids: Tensor) -> bool:
    try:
        decoder.allocate(caching)
        decoder.fill()
        decoder.step(ids[: caching.batch], decoder.at(caching.tokens - 1, reader))
    except OUT_OF_ROOM:
        return False
    return True


def _accepts(decoder: Decoder, caching: Caching, *, accounted: bool = True) -> bool:
    """Whether a cache of that size can be had, by our accounting or by the allocator alone."""
    ledger = decoder.build.ledger
    limit = ledger.limit
    ledger.limit = limit if accounted else None
    try:
        decoder.allocate(caching)
    except OUT_OF_ROOM:
        return False
    finally:
        ledger.limit = limit
        clean(decoder)
    return True


def clean(decoder: Decoder) -> None:
    """Give every byte of cache back to the device."""
    decoder.release()
    if decoder.build.ledger.device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
