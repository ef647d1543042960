"""Part of check a on a GPU: our kernels and torch's give what plain torch gives, on the very shapes of the model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from kvplan.arch.formats import KvFormat
from kvplan.verify.live import fused
from kvplan.verify.live.attend import Query, by_spans
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.readers import candidates
from kvplan.verify.live.rows import Layout, Rows
from kvplan.verify.parts import AttentionPart, Blueprint, DeltaPart, LatentPart, MambaPart
from kvplan.verify.verdict import Row, not_run, within

BATCH, SLOTS = 3, 1000
_ALLOWED = 0.02
"""Of the largest value, in 16 bit: eight steps of bf16's last place."""


def kernels_agree(
    plan: Blueprint, kv: KvFormat, layout: Layout, device: torch.device, why_not: str | None
) -> Iterator[Row]:
    """A row for each kernel and shape; on a CPU, where there are none, one row that says so."""
    if device.type != "cuda":
        yield not_run("recompute", "GPU kernels against plain torch", "difference", why_not or "no GPU")
        return
    for part in plan.mixers:
        if isinstance(part, AttentionPart | LatentPart):
            yield from _readers(part, kv, layout, device, triton=why_not is None)
        if why_not is None and isinstance(part, AttentionPart) and part.shares is None:
            yield _store(part, kv, layout, device)
        if why_not is None and isinstance(part, DeltaPart | MambaPart):
            yield _advance(part, device)


def _rows(ledger: Ledger, part: AttentionPart | LatentPart, kv: KvFormat, layout: Layout) -> tuple[Rows, Rows | None]:
    table = layout.table(ledger, BATCH, SLOTS)
    make = functools.partial(Rows, ledger, batch=BATCH, slots=SLOTS, dtype=torch.bfloat16, layout=layout, table=table)
    if isinstance(part, LatentPart):
        return make(heads=1, dim=part.rank + part.rope_dim, format_=kv.k), None
    return make(heads=part.kv_heads, dim=part.k_dim, format_=kv.k), make(
        heads=part.kv_heads, dim=part.v_dim, format_=kv.v
    )


def _readers(
    part: AttentionPart | LatentPart, kv: KvFormat, layout: Layout, device: torch.device, *, triton: bool
) -> Iterator[Row]:
    ledger = Ledger(device, None, seed=3)
    keys, values = _rows(ledger, part, kv, layout)
    for rows in (keys, values):
        if rows is not None:
            rows.fill(ledger)
    queries = torch.randn((BATCH, part.heads, keys.dim), device=device, generator=ledger.random).bfloat16()
    v_dim = part.rank if isinstance(part, LatentPart) else part.v_dim
    chosen = None
    if isinstance(part, LatentPart) and part.topk is not None:
        chosen = torch.stack([torch.randperm(SLOTS, device=device)[: SLOTS // 2] for _ in range(BATCH)])
    sink = None
    if isinstance(part, AttentionPart) and part.sink_logits:
        sink = torch.randn(part.heads, device=device, generator=ledger.random).bfloat16()
    slots = SLOTS if chosen is None else SLOTS // 2
    query = Query(queries, keys, values, slots, v_dim, keys.dim**-0.5, sink, chosen)
    plain = by_spans(query)
    for named in candidates(query, triton=triton)[:-1]:
        what = f"{part.name}, {named.name} against plain torch"
        yield _compared(what, plain, functools.partial(named.read, query))


def _compared(what: str, plain: Tensor, work: Callable[[], Tensor]) -> Row:
    scale = max(float(plain.float().abs().max()), 1e-3)
    try:
        difference = float((work().float() - plain.float()).abs().max())
    except Exception as error:
        return not_run("recompute", what, "difference", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    because = f"16-bit results within {_ALLOWED:.0%} of the largest"
    return within("recompute", what, "difference", 0.0, difference, _ALLOWED * scale, because)


def _store(part: AttentionPart, kv: KvFormat, layout: Layout, device: torch.device) -> Row:
    """Rotated, normed, encoded and stored by one kernel, or step by step."""
    ledger = Ledger(device, None, seed=3)
    heads = fused.Heads(part.heads, part.kv_heads, part.k_dim, part.v_dim)
    norms = None
    if part.norms:
        norms = (ledger.weight((part.k_dim,), torch.bfloat16), ledger.weight((part.k_dim,), torch.bfloat16))
    projected = torch.randn((BATCH, heads.width), device=device, generator=ledger.random).bfloat16()
    turn = fused.angles(77, part.k_dim // 2 * 2, device)
    found = []
    for on in (False, True):
        keys, values = _rows(ledger, part, kv, layout)
        assert values is not None  # noqa: S101 - attention has values
        for rows in (keys, values):
            for tensor in rows.tensors():
                tensor.view(torch.uint8).zero_()
        fused.use_triton(on=on)
        query = fused.store(projected, heads, turn, norms, keys, values, 77)
        found.append(torch.cat([one.float().flatten() for one in (query, keys.read(77, 78), values.read(77, 78))]))
    fused.use_triton(on=True)
    # Values that fall between two steps of an eight-bit format may go either way: a step is an eighth of the value.
    scale = float(found[0].abs().max())
    allowed = _ALLOWED if kv.k.bits + kv.v.bits == 32 else 0.13
    because = f"within {allowed:.0%} of the largest: one step of the format"
    what = f"{part.name}, stored in {kv.k.name} by our kernel against plain torch"
    return within(
        "recompute", what, "difference", 0.0, float((found[0] - found[1]).abs().max()), allowed * scale, because
    )


def _advance(part: DeltaPart | MambaPart, device: torch.device) -> Row:
    random = torch.Generator(device=device).manual_seed(3)
    if isinstance(part, DeltaPart):
        heads, k_dim, v_dim = part.v_heads, part.k_dim, part.v_dim
    else:
        heads, k_dim, v_dim = part.heads, part.state, part.head_dim

    def made(*shape: int) -> Tensor:
        return torch.rand((BATCH, heads, *shape), device=device, generator=random) - 0.5

    start, key, value, query = made(k_dim, v_dim), made(k_dim), made(v_dim), made(k_dim)
    decay, write = made() + 0.5, made() + 0.5
    erase, found = isinstance(part, DeltaPart), []
    for on in (False, True):
        fused.use_triton(on=on)
        state = start.clone()
        read = fused.advance(state, key * k_dim**-0.5, value, query, decay, write, erase=erase)
        found.append(torch.cat((state.flatten(), read.flatten())))
    fused.use_triton(on=True)
    what = f"{part.name}, state moved on by our kernel against plain torch"
    difference = float((found[0] - found[1]).abs().max())
    return within("recompute", what, "difference", 0.0, difference, 1e-3, "32-bit results within 0.001")
