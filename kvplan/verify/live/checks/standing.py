"""A cache that stands on every rank or on none, and what gives it back."""

from __future__ import annotations

import gc

import torch

from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Caching
from kvplan.verify.live.ledger import OUT_OF_ROOM
from kvplan.verify.live.ranks import everybody


def stand(decoder: Decoder, caching: Caching, *, filled: bool = True) -> str | None:
    """Allocate a cache, and fill it. Why it doesn't stand, where one of the ranks has no room for it: then none keeps its own.

    All ranks have to call this, and none may go on to a step before all have: one that left alone would be waited for.
    """
    refused = None
    try:
        decoder.allocate(caching)
        if filled:
            decoder.fill()
    except OUT_OF_ROOM as error:
        refused = str(error).split(". ")[0] or type(error).__name__
    refusals = everybody(decoder.build.ranks, refused)
    for rank, one in enumerate(refusals):
        if one is not None:
            clean(decoder)
            return one if len(refusals) == 1 else f"rank {rank}: {one}"
    return None


def clean(decoder: Decoder) -> None:
    """Give every byte of cache back to the device."""
    decoder.release()
    if decoder.build.ledger.device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
