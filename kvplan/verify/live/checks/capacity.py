"""Check c: the predicted batch fits and decodes, and the next larger one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kvplan.verify.live.checks.allocation import allocate, release
from kvplan.verify.live.kernels.attend import Reader
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Caching
from kvplan.verify.live.ledger import OUT_OF_ROOM
from kvplan.verify.live.machine import hold_to
from kvplan.verify.live.rows import Layout
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import Row, exact, not_run


@dataclass(frozen=True, slots=True)
class Plan:
    """The claim: at most `batch` sequences of `tokens` fit. limit: bytes for everything."""

    batch: int
    tokens: int
    limit: int


def capacity(
    predicted: Predicted, decoder: Decoder, plan: Plan, workspace: int, reader: Reader, ids: Tensor, most: int
) -> Iterator[Row]:
    """Allocate the predicted batch, decode a token, then ask for one more sequence, and for one more token in each.

    workspace: bytes that torch's allocator may take beyond the limit for temporary tensors. most: bytes that the whole
    run may take, to which torch's allocator is held before and after.
    """
    device = decoder.build.ledger.device
    what = f"sequences of {plan.tokens:,} tokens in {plan.limit:,} B"
    layout = Layout(predicted.page)
    hold_to(device, min(most, plan.limit + workspace))
    try:
        planned = Caching(plan.batch, plan.tokens, predicted.kv, layout)
        fits = _accepts(decoder, planned)
        because = _why_not_decoded(decoder, planned, reader, ids) if fits else _taken_by_others(device, plan.limit)
        if because is not None:
            for whose in ("our accounting", "the allocator"):
                yield not_run("capacity", f"most {what}, by {whose}", "sequences", because, plan.batch)
            return
        one_more = Caching(plan.batch + 1, plan.tokens, predicted.kv, layout)
        ours = _accepts(decoder, one_more)
        shown = plan.batch + ours if fits else 0
        yield exact("capacity", f"most {what}, by our accounting", "sequences", plan.batch, shown)
        if device.type == "cuda":
            theirs = _accepts(decoder, one_more, accounted=False)
            shown = plan.batch + theirs if fits else 0
            yield exact("capacity", f"most {what}, by the allocator", "sequences", plan.batch, shown)
        else:
            because = "a CPU's allocator has no limit of its own"
            yield not_run("capacity", f"most {what}, by the allocator", "sequences", because, plan.batch)
        if fits and _grows(predicted, plan.tokens):
            longer = _accepts(decoder, replace(planned, tokens=plan.tokens + 1))
            what = f"longest {plan.batch} sequences in {plan.limit:,} B, by our accounting"
            yield exact("capacity", what, "tokens", plan.tokens, plan.tokens + longer)
    finally:
        release(decoder)
        hold_to(device, most)


def _grows(predicted: Predicted, tokens: int) -> bool:
    """Whether one more token takes more, and only cache. Pages round up, and have tables."""
    return predicted.page is None and predicted.cache_bytes(tokens + 1) > predicted.cache_bytes(tokens)


def _why_not_decoded(decoder: Decoder, caching: Caching, reader: Reader, ids: Tensor) -> str | None:
    """Why a step on an allocated cache didn't finish; None if it did.

    It ran out of memory for temporary tensors (partial results of readers, workspaces of libraries), which nothing
    predicts.
    """
    refused = allocate(decoder, caching)
    if refused is not None:
        return f"its cache was given, but no memory to fill it: {refused}"
    try:
        decoder.step(ids[: caching.batch], decoder.at(caching.tokens - 1, reader))
    except OUT_OF_ROOM as error:
        if decoder.build.ranks.size > 1:
            raise  # the others are in the middle of the step, and wait
        return f"its cache was given, but no memory for what a step makes and drops: {str(error).split('. ')[0]}"
    finally:
        release(decoder)
    return None


def _taken_by_others(device: torch.device, limit: int) -> str | None:
    """Whether a GPU lost memory to others since the run was planned, which nothing predicts."""
    if device.type != "cuda":
        return None
    left = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    return f"another process took memory meanwhile: {left:,} B are left of {limit:,}" if left < limit else None


def _accepts(decoder: Decoder, caching: Caching, *, accounted: bool = True) -> bool:
    """Whether a cache of that size can be allocated, by kvplan's accounting or by the allocator alone."""
    ledger = decoder.build.ledger
    limit = ledger.limit
    ledger.limit = limit if accounted else None
    try:
        return allocate(decoder, caching, filled=False) is None
    finally:
        ledger.limit = limit
        release(decoder)
