"""Part of check a on a GPU: kernels agree with plain torch at the model's own shapes.

Caches are made up so that a wrong answer shows: both signs, a scale for each row, queries long enough that some slots
weigh more than others, sinks that take a part of the sum, and besides a long cache a short one in which every slot
counts. tests/verify/mutants.py has the faults that are noticed.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from kvplan.arch.formats import KvFormat
from kvplan.verify.live.kernels import fused
from kvplan.verify.live.kernels.attend import Query, by_spans
from kvplan.verify.live.kernels.readers import candidates
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.rows import Layout, Rows
from kvplan.verify.parts import AttentionPart, Blueprint, DeltaPart, LatentPart, MambaPart
from kvplan.verify.verdict import OUT_OF_TIME, Row, not_run, within

BATCH, LENGTHS = 3, (1000, 37)
"""No multiple of a block or a page. One of 37 slots left out is seen, one of 1000 isn't."""
_SCORES, _SINKS = 1.7, 6.0
"""Spread of the scores, whatever the format; logit of a sink that then takes about a tenth of the long cache's sum."""
_ALLOWED = 0.02
"""Difference allowed, as a part of the largest value in 16 bit: eight steps of bf16's last place."""
_FLOAT8_STEP = 0.13
"""One step of fp8, an eighth of the value, because a value between two steps may be rounded either way."""


def kernels_agree(
    plan: Blueprint, kv: KvFormat, layout: Layout, device: torch.device, why_not: str | None, deadline: float
) -> Iterator[Row]:
    """A row for each kernel and shape; on a CPU, which has no kernels, one row that says so.

    deadline: time.monotonic() after which no more kernels are compiled.
    """
    if device.type != "cuda":
        yield not_run("recompute", "GPU kernels against plain torch", "difference", why_not or "no GPU")
        return
    for part in plan.mixers:
        if isinstance(part, AttentionPart | LatentPart):
            yield from _readers(part, kv, layout, device, deadline, triton=why_not is None)
        if why_not is None and isinstance(part, AttentionPart) and part.shares is None:
            yield stores(part, kv, layout, device)
        if why_not is None and isinstance(part, DeltaPart | MambaPart):
            yield advances(part, device)


def _rows(
    ledger: Ledger, part: AttentionPart | LatentPart, kv: KvFormat, layout: Layout, slots: int, dtype: torch.dtype
) -> tuple[Rows, Rows | None]:
    table = layout.table(ledger, BATCH, slots)
    make = functools.partial(Rows, ledger, batch=BATCH, slots=slots, dtype=dtype, layout=layout, table=table)
    if isinstance(part, LatentPart):
        return make(heads=1, dim=part.rank + part.rope_dim, format_=kv.k), None
    return make(heads=part.kv_heads, dim=part.k_dim, format_=kv.k), make(
        heads=part.kv_heads, dim=part.v_dim, format_=kv.v
    )


def questions(
    part: AttentionPart | LatentPart, kv: KvFormat, layout: Layout, device: torch.device, dtype: torch.dtype
) -> Iterator[Query]:
    """Queries of a mixer's shape for caches of each length."""
    ledger = Ledger(device, None, seed=3)
    for length in LENGTHS:
        keys, values = _rows(ledger, part, kv, layout, length, dtype)
        for rows in (keys, values):
            if rows is not None:
                rows.fill(ledger)
        spread = float(keys.read(0, length).float().std())
        made = functools.partial(torch.randn, device=device, generator=ledger.random)
        chosen = sink = None
        if isinstance(part, LatentPart) and part.topk is not None:
            chosen = torch.stack([torch.randperm(length, device=device)[: length // 2] for _ in range(BATCH)])
        if isinstance(part, AttentionPart) and part.sink_logits:
            sink = (_SINKS + math.log(length / LENGTHS[0]) + made(part.heads)).to(dtype)
        yield Query(
            (_SCORES / spread * made((BATCH, part.heads, keys.dim))).to(dtype), keys, values,
            length if chosen is None else chosen.shape[1], part.rank if isinstance(part, LatentPart) else part.v_dim,
            keys.dim**-0.5, sink, chosen,
        )  # fmt: skip


def _readers(
    part: AttentionPart | LatentPart,
    kv: KvFormat,
    layout: Layout,
    device: torch.device,
    deadline: float,
    *,
    triton: bool,
) -> Iterator[Row]:
    asked = tuple(questions(part, kv, layout, device, torch.bfloat16))
    plain = tuple(by_spans(query) for query in asked)
    for named in candidates(asked[0], triton=triton)[:-1]:
        what = f"{part.name}, {named.name} against plain torch"
        if time.monotonic() > deadline:
            yield not_run("recompute", what, "difference", OUT_OF_TIME)
            continue
        yield compared(what, plain, lambda read=named.read: [read(query) for query in asked])  # type: ignore[misc]


def compared(
    what: str,
    plain: Sequence[Tensor],
    work: Callable[[], Sequence[Tensor]],
    allowed: float = _ALLOWED,
    why: str = "16-bit",
) -> Row:
    """The largest difference of all answers, as a part of the largest value."""
    try:
        differences = [_apart(right, found) for right, found in zip(plain, work(), strict=True)]
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        return not_run("recompute", what, "difference", f"{type(error).__name__}: {reason}")
    because = f"{why} results within {allowed:.1%} of the largest"
    return within("recompute", what, "difference", 0.0, max(differences), allowed, because)


def _apart(right: Tensor, found: Tensor) -> float:
    scale = max(float(right.float().abs().max()), 1e-3)
    difference = float((found.float() - right.float()).abs().max()) / scale
    return difference if difference == difference else float("inf")  # noqa: PLR0124 - NaN


def stores(part: AttentionPart, kv: KvFormat, layout: Layout, device: torch.device) -> Row:
    """Rotating, normalizing, encoding and storing by one kernel, against single steps.

    A kernel that fails is not used from then on.
    """
    ledger, slots, slot = Ledger(device, None, seed=3), LENGTHS[-1], LENGTHS[-1] - 1
    what = f"{part.name}, stored in {kv.k.name} by our kernel against plain torch"
    probe = _rows(ledger, part, kv, layout, slots, torch.bfloat16)
    if not fused.kernel_stores(*probe):
        return not_run("recompute", what, "difference", "it doesn't convert to this format here: plain torch stores")
    heads = fused.Heads(part.heads, part.kv_heads, part.k_dim, part.v_dim)
    norms = None
    if part.norms:
        norms = (ledger.weight((part.k_dim,), torch.bfloat16), ledger.weight((part.k_dim,), torch.bfloat16))
    projected = torch.randn((BATCH, heads.width), device=device, generator=ledger.random).bfloat16()
    turn = fused.angles(slot, part.k_dim // 2 * 2, device)
    tables = ledger.random.get_state()

    def work() -> list[Tensor]:
        ledger.random.set_state(tables)
        keys, values = _rows(ledger, part, kv, layout, slots, torch.bfloat16)
        assert values is not None  # noqa: S101 - attention has values
        for tensor in (*keys.tensors(), *values.tensors()):
            tensor.view(torch.uint8).zero_()
        query = fused.store(projected, heads, turn, norms, keys, values, slot)
        return [query, keys.read(0, slots), values.read(0, slots)]

    float8 = any(rows is not None and rows.how.dtype == torch.float8_e4m3fn for rows in probe)
    return _fused("store", what, work, _FLOAT8_STEP if float8 else _ALLOWED, "stored")


def advances(part: DeltaPart | MambaPart, device: torch.device) -> Row:
    """Advancing a state by one kernel, against single steps. A kernel that fails is not used from then on."""
    random = torch.Generator(device=device).manual_seed(3)
    if isinstance(part, DeltaPart):
        heads, k_dim, v_dim = part.v_heads, part.k_dim, part.v_dim
    else:
        heads, k_dim, v_dim = part.heads, part.state, part.head_dim

    def made(*shape: int) -> Tensor:
        return torch.rand((BATCH, heads, *shape), device=device, generator=random) - 0.5

    start, key, value, query = made(k_dim, v_dim), made(k_dim), made(v_dim), made(k_dim)
    decay, write = made() + 0.5, made() + 0.5

    def work() -> list[Tensor]:
        state = start.clone()
        erase = isinstance(part, DeltaPart)
        return [state, fused.advance(state, key * k_dim**-0.5, value, query, decay, write, erase=erase)]

    return _fused("advance", f"{part.name}, state moved on by our kernel against plain torch", work, 1e-3, "32-bit")


def _fused(kernel: str, what: str, work: Callable[[], list[Tensor]], allowed: float, why: str) -> Row:
    with fused.plain():
        right = work()
    row = compared(what, right, work, allowed, why)
    if row.measured is None:
        fused.leave_out(kernel)
    return row
