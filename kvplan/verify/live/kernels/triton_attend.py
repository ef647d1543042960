"""Split-KV decode attention in Triton: every byte of the cache is read once, in the format it is stored in.

A program takes one sequence, one KV head with the query heads that share it, and one span of slots; a second kernel
joins the spans. Flash-Decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html. Keys wider than a power of two
(576 = 512 + 64, 192 = 128 + 64) are read as a main part and a tail, so that latent attention can use the main part as
its value without reading it again.

Eight-bit numbers are read two at a time, as the 16 bits that tensor cores can be fed with, and kept apart as even and odd
columns: one by one, loads from shared memory and conversions would take longer than the memory does.
"""

# ruff: noqa: C901, N803, PLR0912, PLR0915 - one kernel is one function; what Triton knows when it compiles is written in capitals

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvplan.verify.live.kernels.attend import Query
from kvplan.verify.live.rows import Rows

_MOST_SPANS = 256
_STEP = 32
"""Spans that are joined at a time."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the work is split: bytes of keys per step, warps of a program, stages of its pipeline, programs per core."""

    kib: int
    warps: int
    stages: int
    programs: int

    def __str__(self) -> str:
        return f"{self.kib}K/{self.warps}w/{self.stages}s/{self.programs}p"


TUNINGS = (
    Tuning(16, 4, 3, 4), Tuning(16, 4, 4, 8), Tuning(32, 4, 3, 2), Tuning(32, 8, 3, 2), Tuning(64, 8, 2, 2), Tuning(8, 4, 3, 4),
)  # fmt: skip
"""Tunings worth trying. The best one depends on head size, format and GPU, so that a run measures them."""


def tunings(query: Query) -> tuple[Tuning, ...]:
    """Those that make different kernels for this cache: a step has 16 to 128 slots, however many KiB those are."""
    kernels: dict[tuple[int, ...], Tuning] = {}
    for tuning in TUNINGS:
        block = _block(query.keys, query.keys.dim, tuning)
        kernels.setdefault((block, tuning.warps, tuning.stages, tuning.programs), tuning)
    return tuple(kernels.values())


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
"""Arguments that change from step to step. Compiling for their divisors would compile again and again."""


_APART_FLOAT8 = tl.constexpr("""{
    .reg .b32 both; .reg .b16 low, high;
    prmt.b32 both, $2, 0, 0x3120; mov.b32 {low, high}, both;
    cvt.rn.f16x2.e4m3x2 $0, low; cvt.rn.f16x2.e4m3x2 $1, high;
}""")
_APART_INT8 = tl.constexpr("""{
    .reg .b32 up, low, high, base; mov.b32 base, 0x64806480;
    xor.b32 up, $2, 0x80808080;
    prmt.b32 low, up, 0x64646464, 0x4240; prmt.b32 high, up, 0x64646464, 0x4341;
    sub.f16x2 $0, low, base; sub.f16x2 $1, high, base;
}""")


@triton.jit
def _apart(pairs, FLOAT8: tl.constexpr, PTX: tl.constexpr):
    """The two eight-bit numbers in each 16 bits, in fp16, which represents all of them exactly.

    PTX: four at a time by hand, which takes a third of the instructions.
    """
    if PTX:
        low, high = tl.inline_asm_elementwise(
            _APART_FLOAT8 if FLOAT8 else _APART_INT8,
            "=r,=r,r",
            [pairs],
            dtype=(tl.float16, tl.float16),
            is_pure=True,
            pack=2,
        )
    elif FLOAT8:
        low = pairs.to(tl.int8).to(tl.float8e4nv, bitcast=True).to(tl.float16)
        high = (pairs >> 8).to(tl.int8).to(tl.float8e4nv, bitcast=True).to(tl.float16)
    else:
        low, high = pairs.to(tl.int8).to(tl.float16), (pairs >> 8).to(tl.float16)
    return low, high


@triton.jit(do_not_specialize=_ANY_LENGTH)
def _spans(query, key, value, key_scale, value_scale, table, chosen, partial, logsum,
           slots, span, scale, key_fixed, value_fixed, pages_each, chosen_each, spans,
           kb, kh, ks, vb, vh, vs, ksb, ksh, kss, vsb, vsh, vss,
           KV_HEADS: tl.constexpr, GROUP: tl.constexpr, K_DIM: tl.constexpr, V_DIM: tl.constexpr, EACH: tl.constexpr,
           MAIN: tl.constexpr, TAIL: tl.constexpr, V_PAD: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr,
           PAGE: tl.constexpr, CHOSEN: tl.constexpr, LATENT: tl.constexpr, KEY_SCALED: tl.constexpr, VALUE_SCALED: tl.constexpr,
           FLOAT8: tl.constexpr, PTX: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
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
    asked = tl.load(query + query_row[:, None] * K_DIM + EACH * main[None, :], mask=here[:, None], other=0.0)
    if EACH == 2:
        asked = asked.to(tl.float16)
        odd = tl.load(query + query_row[:, None] * K_DIM + 2 * main[None, :] + 1, mask=here[:, None], other=0.0)
        odd = odd.to(tl.float16)
    if TAIL > 0:
        tail = tl.arange(0, TAIL)
        tail_here = EACH * (MAIN + tail) < K_DIM
        asked_tail = tl.load(query + query_row[:, None] * K_DIM + EACH * (MAIN + tail)[None, :],
                             mask=here[:, None] & tail_here[None, :], other=0.0)  # fmt: skip
        if EACH == 2:
            asked_tail = asked_tail.to(tl.float16)
            odd_tail = tl.load(query + query_row[:, None] * K_DIM + 2 * (MAIN + tail)[None, :] + 1,
                               mask=here[:, None] & tail_here[None, :], other=0.0).to(tl.float16)  # fmt: skip
    wide = tl.arange(0, V_PAD)
    peak = tl.full([HEADS], -float("inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    mixed = tl.zeros([HEADS, V_PAD], tl.float32)
    if EACH == 2:
        mixed_odd = tl.zeros([HEADS, V_PAD], tl.float32)
    key += head.to(tl.int64) * kh
    value += head.to(tl.int64) * vh
    first = number * span
    last = tl.minimum(first + span, slots)
    for start in range(first, last, BLOCK):
        slot = start + tl.arange(0, BLOCK)
        seen = slot < last
        at = _slot_offset(slot, batch, table, chosen, kb, ks, pages_each, chosen_each, PAGE, CHOSEN, seen)
        rows = tl.load(key + at[:, None] + main[None, :], mask=seen[:, None], other=0)
        if EACH == 2:
            even_rows, odd_rows = _apart(rows, FLOAT8, PTX)
            scores = tl.dot(asked, tl.trans(even_rows), input_precision=PRECISION)
            scores = tl.dot(odd, tl.trans(odd_rows), scores, input_precision=PRECISION)
        else:
            rows = rows.to(asked.dtype)
            scores = tl.dot(asked, tl.trans(rows), input_precision=PRECISION)
        if TAIL > 0:
            if K_DIM == EACH * (MAIN + TAIL):
                ends = tl.load(key + at[:, None] + MAIN + tail[None, :], mask=seen[:, None], other=0)
            else:
                ends = tl.load(
                    key + at[:, None] + MAIN + tail[None, :], mask=seen[:, None] & tail_here[None, :], other=0
                )
            if EACH == 2:
                even_ends, odd_ends = _apart(ends, FLOAT8, PTX)
                scores = tl.dot(asked_tail, tl.trans(even_ends), scores, input_precision=PRECISION)
                scores = tl.dot(odd_tail, tl.trans(odd_ends), scores, input_precision=PRECISION)
            else:
                scores = tl.dot(asked_tail, tl.trans(ends.to(asked.dtype)), scores, input_precision=PRECISION)
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
        if EACH == 2:
            mixed_odd *= kept[:, None]
        if LATENT:
            if KEY_SCALED:
                weights *= row_scale[None, :]
            if EACH == 2:
                mixed = tl.dot(weights.to(tl.float16), even_rows, mixed, input_precision=PRECISION)
                mixed_odd = tl.dot(weights.to(tl.float16), odd_rows, mixed_odd, input_precision=PRECISION)
            else:
                mixed = tl.dot(weights.to(asked.dtype), rows, mixed, input_precision=PRECISION)
        else:
            if VALUE_SCALED:
                at = _slot_offset(slot, batch, table, chosen, vsb, vss, pages_each, chosen_each, PAGE, CHOSEN, seen)
                value_row = tl.load(value_scale + head.to(tl.int64) * vsh + at, mask=seen, other=0.0).to(tl.float32)
                weights *= value_row[None, :]
            at = _slot_offset(slot, batch, table, chosen, vb, vs, pages_each, chosen_each, PAGE, CHOSEN, seen)
            if V_DIM == EACH * V_PAD:
                read = tl.load(value + at[:, None] + wide[None, :], mask=seen[:, None], other=0)
            else:
                read = tl.load(value + at[:, None] + wide[None, :],
                               mask=seen[:, None] & (EACH * wide < V_DIM)[None, :], other=0)  # fmt: skip
            if EACH == 2:
                even_read, odd_read = _apart(read, FLOAT8, PTX)
                mixed = tl.dot(weights.to(tl.float16), even_read, mixed, input_precision=PRECISION)
                mixed_odd = tl.dot(weights.to(tl.float16), odd_read, mixed_odd, input_precision=PRECISION)
            else:
                mixed = tl.dot(weights.to(asked.dtype), read.to(asked.dtype), mixed, input_precision=PRECISION)
        peak = higher
    to = query_row * spans + number
    each = (value_fixed / total)[:, None]
    stored = here[:, None] & (EACH * wide < V_DIM)[None, :]
    tl.store(partial + to[:, None] * V_DIM + EACH * wide[None, :], mixed * each, mask=stored)
    if EACH == 2:
        tl.store(partial + to[:, None] * V_DIM + 2 * wide[None, :] + 1, mixed_odd * each, mask=stored)
    tl.store(logsum + to, peak + tl.log(total), mask=here)


@triton.jit(do_not_specialize=["spans", "query_heads"])
def _join(partial, logsum, sink, out, spans, query_heads,
          V_DIM: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, SINK: tl.constexpr):  # fmt: skip
    """One kernel for any number of spans, `STEP` at a time, because compiling takes seconds."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    here = column < V_DIM
    peak = tl.full([1], -float("inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    mixed = tl.zeros([WIDTH], tl.float32)
    if SINK:
        peak = tl.load(sink + row % query_heads + tl.arange(0, 1)).to(tl.float32)
        total = total + 1.0
    for start in range(0, spans, STEP):
        number = start + tl.arange(0, STEP)
        there = number < spans
        sums = tl.load(logsum + row * spans + number, mask=there, other=-float("inf"))
        higher = tl.maximum(peak, tl.max(sums, 0))
        weights = tl.exp(sums - higher)
        kept = tl.exp(peak - higher)
        parts = tl.load(partial + (row * spans + number)[:, None] * V_DIM + column[None, :],
                        mask=there[:, None] & here[None, :], other=0.0)  # fmt: skip
        mixed = mixed * kept + tl.sum(parts * weights[:, None], 0)
        total = total * kept + tl.sum(weights, 0)
        peak = higher
    tl.store(out + row * V_DIM + column, (mixed / total).to(out.dtype.element_ty), mask=here)


@functools.cache
def _cores(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def triton_can(query: Query) -> bool:
    """Whether the kernel can read this cache: one scale per row or none, head sizes it can tile, pairs of eight bits."""
    rows = [query.keys] if query.values is None else [query.keys, query.values]
    scales = all(row.how.group in (None, row.dim) and row.how.scale in (None, torch.float32) for row in rows)
    main = 1 << (query.keys.dim.bit_length() - 1)
    each = _each(query.keys)
    # Even and odd columns are products of their own, and none may be narrower than 16.
    tiles = min(main, query.v_dim) >= 16 * each and query.keys.dim % each == query.v_dim % each == 0
    if query.values is None:
        return scales and tiles and query.v_dim == main
    if torch.float8_e5m2 in [row.elements.dtype for row in rows]:
        return False  # taken apart as integers, they would be read as such
    alike = each == 1 == _each(query.values) or query.keys.elements.dtype == query.values.elements.dtype
    return scales and tiles and alike and main <= 512 and query.v_dim <= 512


def _each(rows: Rows) -> int:
    """Numbers read at a time: two of eight bits."""
    return 2 if rows.elements.element_size() == 1 else 1


def by_triton(query: Query, tuning: Tuning = TUNINGS[0]) -> Tensor:
    """Split-KV attention by the kernels above."""
    asked, keys = query.queries.contiguous(), query.keys
    values = keys if query.values is None else query.values
    batch, heads, k_dim = asked.shape
    group = heads // keys.heads
    main = 1 << (k_dim.bit_length() - 1)
    tail = k_dim - main
    each = _each(keys)
    key, value = (rows.elements.view(torch.int16) if each == 2 else rows.elements for rows in (keys, values))
    block = _block(keys, k_dim, tuning)
    program_heads = min(64, max(16, _power(group)))
    rows = batch * keys.heads * -(-group // program_heads)
    span, spans = _divide(query.slots, block, rows, tuning.programs * _cores(asked.device))
    partial = asked.new_empty((batch * heads, spans, query.v_dim), dtype=torch.float32)
    logsum = asked.new_empty((batch * heads, spans), dtype=torch.float32)
    out = asked.new_empty((batch, heads, query.v_dim))
    nothing = logsum  # stands where a kernel takes a pointer that it won't follow
    _spans[(rows, spans)](
        asked, key, value,
        nothing if keys.scales is None else keys.scales, nothing if values.scales is None else values.scales,
        nothing if keys.table is None else keys.table, nothing if query.chosen is None else query.chosen, partial, logsum,
        query.slots, span, query.scale, keys.how.fixed_scale, values.how.fixed_scale,
        0 if keys.table is None else keys.table.shape[1], 0 if query.chosen is None else query.chosen.shape[1], spans,
        *key.stride()[:3], *value.stride()[:3], *_scale_strides(keys), *_scale_strides(values),
        KV_HEADS=keys.heads, GROUP=group, K_DIM=k_dim, V_DIM=query.v_dim, EACH=each, MAIN=main // each,
        TAIL=0 if tail == 0 else max(16, _power(tail) // each), V_PAD=_power(query.v_dim) // each, HEADS=program_heads,
        BLOCK=block, PAGE=keys.layout.page or 0, CHOSEN=query.chosen is not None, LATENT=query.values is None,
        KEY_SCALED=keys.scales is not None, VALUE_SCALED=values.scales is not None,
        FLOAT8=keys.elements.dtype == torch.float8_e4m3fn, PTX=asked.is_cuda and torch.version.hip is None,
        PRECISION="ieee" if asked.dtype == torch.float32 else "tf32",
        num_warps=tuning.warps, num_stages=tuning.stages,
    )  # fmt: skip
    width = max(16, min(128, _power(query.v_dim)))
    _join[(batch * heads, -(-query.v_dim // width))](
        partial, logsum, nothing if query.sink is None else query.sink, out, spans, heads,
        V_DIM=query.v_dim, WIDTH=width, STEP=_STEP, SINK=query.sink is not None,
    )  # fmt: skip
    return out


def _scale_strides(rows: Rows) -> tuple[int, ...]:
    return (0, 0, 0) if rows.scales is None else rows.scales.stride()[:3]


def _block(keys: Rows, k_dim: int, tuning: Tuning) -> int:
    """Slots per step."""
    main = 1 << (k_dim.bit_length() - 1)
    fit = tuning.kib * 2**10 // (main * keys.elements.element_size())
    return max(16, min(128, 1 << max(0, fit.bit_length() - 1)))


def _divide(slots: int, block: int, rows: int, programs: int) -> tuple[int, int]:
    """Slots of a span and number of spans: enough programs to fill the device, and at least four steps per span."""
    wanted = max(1, programs // rows)
    most = max(1, -(-slots // (4 * block)))
    each = -(-slots // min(wanted, most, _MOST_SPANS))
    span = -(-each // block) * block
    return span, -(-slots // span)
