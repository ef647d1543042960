"""Split-KV decode attention in Triton: every byte of the cache is read once, in the format it is stored in.

A program takes one sequence, one KV head with the query heads that share it, and one span of slots; a second kernel
joins the spans. Flash-Decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html. Keys wider than a power of two
(576 = 512 + 64, 192 = 128 + 64) are read as a main part and a tail, so that latent attention can use the main part as
its value without reading it again.
"""

# ruff: noqa: N803, PLR0915 - what Triton knows when it compiles is written in capitals

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvplan.verify.live.attend import Query
from kvplan.verify.live.rows import Rows

_MOST_SPANS = 256


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the work is cut: bytes of keys in one step, warps of a program, stages of its pipeline, programs per core."""

    kib: int
    warps: int
    stages: int
    programs: int

    def __str__(self) -> str:
        return f"{self.kib}K/{self.warps}w/{self.stages}s/{self.programs}p"


TUNINGS = (Tuning(16, 4, 3, 4), Tuning(16, 4, 4, 8), Tuning(32, 4, 3, 4), Tuning(32, 8, 3, 2), Tuning(64, 8, 2, 2))
"""Ways worth trying; which is best depends on head size, format and GPU, so a run measures them."""


@triton.jit
def _slot_offset(slot, batch, table, chosen, stride_batch, stride_slot, pages_each, chosen_each,
                 PAGE: tl.constexpr, CHOSEN: tl.constexpr, mask):  # fmt: skip
    """Element offset of a slot's row and its (page or sequence, slot) pair, for scales."""
    if CHOSEN:
        slot = tl.load(chosen + batch * chosen_each + slot, mask=mask, other=0).to(tl.int32)
    if PAGE > 0:
        outer = tl.load(table + batch * pages_each + slot // PAGE, mask=mask, other=0).to(tl.int64)
        inner = slot % PAGE
    else:
        outer = batch.to(tl.int64) + tl.zeros_like(slot).to(tl.int64)
        inner = slot
    return outer * stride_batch + inner.to(tl.int64) * stride_slot


_ANY_LENGTH = ["slots", "span", "spans", "pages_each", "chosen_each", "ksb", "ksh", "vsb", "vsh"]
"""Arguments that change from step to step: compiling for what divides them would compile again and again."""


@triton.jit(do_not_specialize=_ANY_LENGTH)
def _spans(query, key, value, key_scale, value_scale, table, chosen, partial, logsum,
           slots, span, scale, key_fixed, value_fixed, pages_each, chosen_each, spans,
           kb, kh, ks, vb, vh, vs, ksb, ksh, kss, vsb, vsh, vss,
           KV_HEADS: tl.constexpr, GROUP: tl.constexpr, K_DIM: tl.constexpr, V_DIM: tl.constexpr,
           MAIN: tl.constexpr, TAIL: tl.constexpr, V_PAD: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr,
           PAGE: tl.constexpr, CHOSEN: tl.constexpr, LATENT: tl.constexpr,
           KEY_SCALED: tl.constexpr, VALUE_SCALED: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    parts: tl.constexpr = (GROUP + HEADS - 1) // HEADS
    pair = tl.program_id(0) // parts
    part = tl.program_id(0) % parts
    number = tl.program_id(1)
    batch = pair // KV_HEADS
    head = pair % KV_HEADS
    member = part * HEADS + tl.arange(0, HEADS)
    here = member < GROUP
    query_row = (pair * GROUP + member).to(tl.int64)
    main = tl.arange(0, MAIN)
    asked = tl.load(query + query_row[:, None] * K_DIM + main[None, :], mask=here[:, None], other=0.0)
    if TAIL > 0:
        tail = tl.arange(0, TAIL)
        tail_here = MAIN + tail < K_DIM
        asked_tail = tl.load(query + query_row[:, None] * K_DIM + MAIN + tail[None, :],
                             mask=here[:, None] & tail_here[None, :], other=0.0)  # fmt: skip
    wide = tl.arange(0, V_PAD)
    peak = tl.full([HEADS], -float("inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    mixed = tl.zeros([HEADS, V_PAD], tl.float32)
    key += head.to(tl.int64) * kh
    value += head.to(tl.int64) * vh
    first = number * span
    last = tl.minimum(first + span, slots)
    for start in range(first, last, BLOCK):
        slot = start + tl.arange(0, BLOCK)
        seen = slot < last
        at = _slot_offset(slot, batch, table, chosen, kb, ks, pages_each, chosen_each, PAGE, CHOSEN, seen)
        rows = tl.load(key + at[:, None] + main[None, :], mask=seen[:, None], other=0.0).to(asked.dtype)
        scores = tl.dot(asked, tl.trans(rows), input_precision=PRECISION)
        if TAIL > 0:
            ends = tl.load(key + at[:, None] + MAIN + tail[None, :],
                           mask=seen[:, None] & tail_here[None, :], other=0.0).to(asked.dtype)  # fmt: skip
            scores += tl.dot(asked_tail, tl.trans(ends), input_precision=PRECISION)
        scores *= scale * key_fixed
        if KEY_SCALED:
            at = _slot_offset(slot, batch, table, chosen, ksb, kss, pages_each, chosen_each, PAGE, CHOSEN, seen)
            row_scale = tl.load(key_scale + head.to(tl.int64) * ksh + at, mask=seen, other=0.0).to(tl.float32)
            scores *= row_scale[None, :]
        scores = tl.where(seen[None, :], scores, -float("inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        kept = tl.exp(peak - higher)
        total = total * kept + tl.sum(weights, 1)
        mixed *= kept[:, None]
        if LATENT:
            if KEY_SCALED:
                weights *= row_scale[None, :]
            mixed += tl.dot(weights.to(asked.dtype), rows, input_precision=PRECISION) * key_fixed
        else:
            if VALUE_SCALED:
                at = _slot_offset(slot, batch, table, chosen, vsb, vss, pages_each, chosen_each, PAGE, CHOSEN, seen)
                value_row = tl.load(value_scale + head.to(tl.int64) * vsh + at, mask=seen, other=0.0).to(tl.float32)
                weights *= value_row[None, :]
            at = _slot_offset(slot, batch, table, chosen, vb, vs, pages_each, chosen_each, PAGE, CHOSEN, seen)
            read = tl.load(value + at[:, None] + wide[None, :], mask=seen[:, None] & (wide < V_DIM)[None, :], other=0.0)
            mixed += tl.dot(weights.to(asked.dtype), read.to(asked.dtype), input_precision=PRECISION) * value_fixed
        peak = higher
    to = query_row * spans + number
    tl.store(partial + to[:, None] * V_DIM + wide[None, :], mixed / total[:, None],
             mask=here[:, None] & (wide < V_DIM)[None, :])  # fmt: skip
    tl.store(logsum + to, peak + tl.log(total), mask=here)


@triton.jit(do_not_specialize=["spans", "query_heads"])
def _join(partial, logsum, sink, out, spans, query_heads,
          V_DIM: tl.constexpr, WIDTH: tl.constexpr, SPANS: tl.constexpr, SINK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    number = tl.arange(0, SPANS)
    sums = tl.load(logsum + row * spans + number, mask=number < spans, other=-float("inf"))
    peak = tl.max(sums, 0)
    extra = 0.0
    if SINK:
        logit = tl.load(sink + row % query_heads).to(tl.float32)
        peak = tl.maximum(peak, logit)
        extra = tl.exp(logit - peak)
    weights = tl.exp(sums - peak)
    parts = tl.load(partial + (row * spans + number)[:, None] * V_DIM + column[None, :],
                    mask=(number < spans)[:, None] & (column < V_DIM)[None, :], other=0.0)  # fmt: skip
    mixed = tl.sum(parts * weights[:, None], 0) / (tl.sum(weights, 0) + extra)
    tl.store(out + row * V_DIM + column, mixed.to(out.dtype.element_ty), mask=column < V_DIM)


@functools.cache
def _cores(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def triton_can(query: Query) -> bool:
    """Whether the kernel reads this cache: eight-bit formats with one scale per row or none, head sizes it can tile."""
    rows = [query.keys] if query.values is None else [query.keys, query.values]
    scales = all(row.how.group in (None, row.dim) and row.how.scale in (None, torch.float32) for row in rows)
    main = 1 << (query.keys.dim.bit_length() - 1)
    if query.values is None:
        return scales and query.v_dim == main
    return scales and 16 <= main <= 512 and 16 <= query.v_dim <= 512


def by_triton(query: Query, tuning: Tuning = TUNINGS[0]) -> Tensor:
    """Split-KV attention by the kernels above."""
    asked, keys = query.queries.contiguous(), query.keys
    values = keys if query.values is None else query.values
    batch, heads, k_dim = asked.shape
    group = heads // keys.heads
    main = 1 << (k_dim.bit_length() - 1)
    tail = k_dim - main
    block = _block(keys, k_dim, tuning)
    program_heads = min(64, max(16, _power(group)))
    rows = batch * keys.heads * -(-group // program_heads)
    span, spans = _divide(query.slots, block, rows, tuning.programs * _cores(asked.device))
    partial = asked.new_empty((batch * heads, spans, query.v_dim), dtype=torch.float32)
    logsum = asked.new_empty((batch * heads, spans), dtype=torch.float32)
    out = asked.new_empty((batch, heads, query.v_dim))
    nothing = logsum  # stands where a kernel takes a pointer that it won't follow
    _spans[(rows, spans)](
        asked, keys.elements, values.elements,
        nothing if keys.scales is None else keys.scales, nothing if values.scales is None else values.scales,
        nothing if keys.table is None else keys.table, nothing if query.chosen is None else query.chosen, partial, logsum,
        query.slots, span, query.scale, keys.how.fixed_scale, values.how.fixed_scale,
        0 if keys.table is None else keys.table.shape[1], 0 if query.chosen is None else query.chosen.shape[1], spans,
        *keys.elements.stride()[:3], *values.elements.stride()[:3], *_scale_strides(keys), *_scale_strides(values),
        KV_HEADS=keys.heads, GROUP=group, K_DIM=k_dim, V_DIM=query.v_dim, MAIN=main, TAIL=0 if tail == 0 else max(16, _power(tail)),
        V_PAD=_power(query.v_dim), HEADS=program_heads, BLOCK=block, PAGE=keys.layout.page or 0,
        CHOSEN=query.chosen is not None, LATENT=query.values is None,
        KEY_SCALED=keys.scales is not None, VALUE_SCALED=values.scales is not None,
        PRECISION="ieee" if asked.dtype == torch.float32 else "tf32",
        num_warps=tuning.warps, num_stages=tuning.stages,
    )  # fmt: skip
    width = max(16, min(128, _power(query.v_dim), 8192 // _power(spans)))
    _join[(batch * heads, -(-query.v_dim // width))](
        partial, logsum, nothing if query.sink is None else query.sink, out, spans, heads,
        V_DIM=query.v_dim, WIDTH=width, SPANS=_power(spans), SINK=query.sink is not None,
    )  # fmt: skip
    return out


def _scale_strides(rows: Rows) -> tuple[int, ...]:
    return (0, 0, 0) if rows.scales is None else rows.scales.stride()[:3]


def _block(keys: Rows, k_dim: int, tuning: Tuning) -> int:
    """Slots of one step."""
    main = 1 << (k_dim.bit_length() - 1)
    fit = tuning.kib * 2**10 // (main * keys.elements.element_size())
    return max(16, min(128, 1 << max(0, fit.bit_length() - 1)))


def _divide(slots: int, block: int, rows: int, programs: int) -> tuple[int, int]:
    """Slots of a span and number of spans: enough programs to fill the device, spans of at least four steps."""
    wanted = max(1, programs // rows)
    most = max(1, -(-slots // (4 * block)))
    each = -(-slots // min(wanted, most, _MOST_SPANS))
    span = -(-each // block) * block
    return span, -(-slots // span)
