"""Check a: decoding through the cache equals recomputing everything, for every kind of layer of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.errors import KvplanError
from kvplan.text import plural
from kvplan.verify.live.kernels.attend import by_spans
from kvplan.verify.live.layers.attention import Attention
from kvplan.verify.live.layers.decoder import Decoder, mixer
from kvplan.verify.live.layers.mixer import Alone, Build, Caching, Step
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.rows import Layout
from kvplan.verify.parts import AttentionPart, Blueprint, Mixer
from kvplan.verify.shrink import HIDDEN, TOKENS, small, small_stack
from kvplan.verify.verdict import Row, not_run, within

BATCH = 2
_PAGE = 4
_ALLOWED = 1e-4
"""Difference allowed, as a part of the largest value: reordered sums of a few hundred products in 32 bit."""


def recompute(plan: Blueprint, kv: KvFormat, layout: Layout, device: torch.device) -> Iterator[Row]:
    """A row for each kind of mixer in 32 bit, one for each in the cache format asked for, and one for a small stack."""
    yield from mixers(plan, _EXACT, layout, device)
    if kv.k.name not in _SIXTEEN or kv.v.name not in _SIXTEEN:
        yield from mixers(plan, kv, layout, device)
    yield stack(plan, layout, device)


def mixers(plan: Blueprint, kv: KvFormat, layout: Layout, device: torch.device) -> Iterator[Row]:
    """A row for each kind of mixer, with its cache in one format."""
    for part in plan.mixers:
        yield _one(small(part), kv, _paged(layout), device)


def stack(plan: Blueprint, layout: Layout, device: torch.device) -> Row:
    """Small relatives of every mixer and feed-forward in sequence, between embedding and head."""
    return _stack(small_stack(plan), _EXACT, _paged(layout), device)


def _paged(layout: Layout) -> Layout:
    return layout if layout.page is None else Layout(_PAGE)


_EXACT = KvFormat(FORMATS["fp32"], FORMATS["fp32"])
_SIXTEEN = ("fp32", "bf16", "fp16")


def _build(device: torch.device, hidden: int = HIDDEN) -> Build:
    return Build(Ledger(device, None, seed=5), hidden, torch.float32, Alone())


def _inputs(build: Build) -> Tensor:
    return torch.randn((BATCH, TOKENS, build.hidden), generator=build.ledger.random, device=build.ledger.device)


def _one(part: Mixer, kv: KvFormat, layout: Layout, device: torch.device) -> Row:
    """One mixer, with its source if it shares a cache."""
    build = _build(device)
    owner = None
    if isinstance(part, AttentionPart) and part.shares is not None:
        owner = Attention(replace(part, shares=None, norms=False, bias=False, gate=False, sink_logits=False), build)
    made = mixer(part, build, owner)
    what = f"{part.name}, cache in {kv.name}"
    try:
        for one in (owner, made):
            if one is not None:
                one.allocate(Caching(BATCH, TOKENS, kv, layout))
    except KvplanError as refused:
        return not_run("recompute", what, "difference", refused.problem.what)
    inputs = _inputs(build)
    with torch.no_grad():
        if owner is not None:
            owner.full(inputs)
        whole = made.full(inputs)
        nothing = torch.zeros((BATCH, build.hidden), device=device)
        found = []
        for token in range(TOKENS):
            at = Step(token, by_spans, device)
            if owner is not None:
                owner.step(inputs[:, token], at, nothing)
            found.append(made.step(inputs[:, token], at, nothing))
    return _compared(what, whole, torch.stack(found, 1))


def _stack(plan: Blueprint, kv: KvFormat, layout: Layout, device: torch.device) -> Row:
    """Layers of every kind, feed-forwards, embedding and head together."""
    build = _build(device, plan.hidden)
    decoder = Decoder(plan, build)
    decoder.allocate(Caching(BATCH, TOKENS, kv, layout))
    ids = torch.randint(0, plan.vocab, (BATCH, TOKENS), generator=build.ledger.random, device=device)
    whole = decoder.full(ids)
    found = [decoder.step(ids[:, token], decoder.at(token, by_spans)) for token in range(TOKENS)]
    return _compared(f"stack of {plural(len(plan.layers), 'layer')} in fp32", whole, torch.stack(found, 1))


def _compared(what: str, whole: Tensor, found: Tensor) -> Row:
    scale = max(1.0, float(whole.abs().max()))
    difference = float((whole - found).abs().max())
    because = f"largest difference over {BATCH} x {TOKENS} tokens at most {_ALLOWED * scale:.1e}"
    if difference != difference:  # noqa: PLR0124 - NaN
        difference = float("inf")
    return within("recompute", what, "difference", 0.0, difference, _ALLOWED * scale, because)
