"""Caches that are allocated on every rank or on none."""

from __future__ import annotations

import gc

import torch

from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Caching
from kvplan.verify.live.ledger import OUT_OF_ROOM
from kvplan.verify.live.ranks import everybody


def allocate(decoder: Decoder, caching: Caching, *, filled: bool = True) -> str | None:
    """Allocate and fill a cache. If a rank has no room, release it on all of them and return why; otherwise None.

    All ranks must call this together, and none may start a step before all have returned, or it would wait for the
    others.
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
            release(decoder)
            return one if len(refusals) == 1 else f"rank {rank}: {one}"
    return None


def release(decoder: Decoder) -> None:
    """Give the cache's memory back to the device."""
    decoder.release()
    if decoder.build.ledger.device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
