"""Triton kernels for kvplan.verify.live.kernels.fused: the same results, one launch each."""

# ruff: noqa: N803 - what Triton knows when it compiles is written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvplan.verify.live.kernels.fused import EPS, Angles, Heads
from kvplan.verify.live.rows import Rows


@triton.jit
def _encoded(vector, here, limit, FLOAT8: tl.constexpr, INT8: tl.constexpr, FIXED: tl.constexpr, SCALED: tl.constexpr):
    """Elements as they are stored, and their scale."""
    scale = FIXED
    if SCALED:
        scale = tl.maximum(tl.max(tl.where(here, tl.abs(vector), 0.0), 0), 9.5367431640625e-07) / limit
    if FLOAT8 or INT8:
        vector = tl.minimum(tl.maximum(vector / scale, -limit), limit)
    if INT8:
        vector = tl.floor(vector + 0.5)
    return vector, scale


@triton.jit(do_not_specialize=["slot", "pages_each", "width", "ksb", "ksh", "vsb", "vsh"])
def _store(projected, query, key, value, key_scale, value_scale, table, cos, sin, query_norm, key_norm,
           slot, pages_each, width, kb, kh, ks, vb, vh, vs, ksb, ksh, kss, vsb, vsh, vss, key_limit, value_limit, eps,
           HEADS: tl.constexpr, KV_HEADS: tl.constexpr, K_DIM: tl.constexpr, V_DIM: tl.constexpr, PAD: tl.constexpr,
           HALF: tl.constexpr, V_START: tl.constexpr, PAGE: tl.constexpr, NORM: tl.constexpr,
           KEY_FLOAT8: tl.constexpr, KEY_INT8: tl.constexpr, KEY_FIXED: tl.constexpr, KEY_SCALED: tl.constexpr,
           VALUE_FLOAT8: tl.constexpr, VALUE_INT8: tl.constexpr, VALUE_FIXED: tl.constexpr, VALUE_SCALED: tl.constexpr):  # fmt: skip
    batch = tl.program_id(0)
    head = tl.program_id(1)
    lane = tl.arange(0, PAD)
    outer = batch.to(tl.int64)
    inner = slot
    if PAGE > 0:
        outer = tl.load(table + batch * pages_each + slot // PAGE).to(tl.int64)
        inner = slot % PAGE
    inner = inner.to(tl.int64)
    row = projected + batch.to(tl.int64) * width
    if head < HEADS + KV_HEADS:
        here = lane < K_DIM
        other = tl.where(lane < HALF, lane + HALF, tl.where(lane < 2 * HALF, lane - HALF, lane))
        one = tl.load(row + head * K_DIM + lane, mask=here, other=0.0).to(tl.float32)
        two = tl.load(row + head * K_DIM + other, mask=here, other=0.0).to(tl.float32)
        if NORM:
            root = tl.rsqrt(tl.sum(one * one, 0) / K_DIM + eps)
            norm = query_norm if head < HEADS else key_norm
            one *= root * tl.load(norm + lane, mask=here, other=0.0).to(tl.float32)
            two *= root * tl.load(norm + other, mask=here, other=0.0).to(tl.float32)
        rotary = lane < 2 * HALF
        c = tl.load(cos + lane % HALF, mask=rotary, other=1.0)
        s = tl.load(sin + lane % HALF, mask=rotary, other=0.0)
        vector = one * c + tl.where(lane < HALF, -two, two) * s
        if head < HEADS:
            tl.store(
                query + (batch.to(tl.int64) * HEADS + head) * K_DIM + lane, vector.to(query.dtype.element_ty), mask=here
            )
        else:
            own = (head - HEADS).to(tl.int64)
            vector, scale = _encoded(vector, here, key_limit, KEY_FLOAT8, KEY_INT8, KEY_FIXED, KEY_SCALED)
            tl.store(key + outer * kb + own * kh + inner * ks + lane, vector.to(key.dtype.element_ty), mask=here)
            if KEY_SCALED:
                tl.store(key_scale + outer * ksb + own * ksh + inner * kss, scale)
    else:
        here = lane < V_DIM
        own = (head - HEADS - KV_HEADS).to(tl.int64)
        at = row + V_START + own * V_DIM
        vector = tl.load(at + lane, mask=here, other=0.0).to(tl.float32)
        vector, scale = _encoded(vector, here, value_limit, VALUE_FLOAT8, VALUE_INT8, VALUE_FIXED, VALUE_SCALED)
        tl.store(value + outer * vb + own * vh + inner * vs + lane, vector.to(value.dtype.element_ty), mask=here)
        if VALUE_SCALED:
            tl.store(value_scale + outer * vsb + own * vsh + inner * vss, scale)


def store(
    projected: Tensor,
    heads: Heads,
    turn: Angles,
    norms: tuple[Tensor, Tensor] | None,
    keys: Rows,
    values: Rows,
    slot: int,
) -> Tensor:
    """See kvplan.verify.live.kernels.fused.store."""
    batch = projected.shape[0]
    query = projected.new_empty((batch, heads.heads, heads.k_dim))
    nothing = turn.cos
    key_scale, key_strides, key_limit, key_kind = _kind(keys, nothing)
    value_scale, value_strides, value_limit, value_kind = _kind(values, nothing)
    _store[(batch, heads.heads + 2 * heads.kv_heads)](
        projected, query, keys.elements, values.elements, key_scale, value_scale,
        nothing if keys.table is None else keys.table, turn.cos, turn.sin,
        nothing if norms is None else norms[0], nothing if norms is None else norms[1],
        slot, 0 if keys.table is None else keys.table.shape[1], projected.stride(0),
        *keys.elements.stride()[:3], *values.elements.stride()[:3], *key_strides, *value_strides, key_limit, value_limit, EPS,
        HEADS=heads.heads, KV_HEADS=heads.kv_heads, K_DIM=heads.k_dim, V_DIM=values.dim,
        V_START=(heads.heads + (heads.kv_heads if heads.v_dim else 0)) * heads.k_dim,
        PAD=max(16, triton.next_power_of_2(max(heads.k_dim, values.dim))), HALF=turn.cos.shape[0],
        PAGE=keys.layout.page or 0, NORM=norms is not None,
        **{f"KEY_{name}": flag for name, flag in key_kind.items()},
        **{f"VALUE_{name}": flag for name, flag in value_kind.items()}, num_warps=1,
    )  # fmt: skip
    return query


def _kind(rows: Rows, nothing: Tensor) -> tuple[Tensor, tuple[int, ...], float, dict[str, float | bool]]:
    kind: dict[str, float | bool] = {
        "FLOAT8": rows.elements.dtype == torch.float8_e4m3fn,
        "INT8": rows.elements.dtype == torch.int8,
        "FIXED": rows.how.fixed_scale,
        "SCALED": rows.scales is not None,
    }
    if rows.scales is None:
        return nothing, (0, 0, 0), rows.how.largest or 1.0, kind
    return rows.scales, rows.scales.stride()[:3], rows.how.largest or 1.0, kind


@triton.jit
def _gated(both, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = lane < width
    gate = tl.load(both + row * 2 * width + lane, mask=here, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * width + width + lane, mask=here, other=0.0).to(tl.float32)
    tl.store(out + row * width + lane, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), mask=here)


def gated(both: Tensor) -> Tensor:
    """See kvplan.verify.live.kernels.fused.gated."""
    width = both.shape[-1] // 2
    rows = both.contiguous().view(-1, 2 * width)
    out = rows.new_empty((rows.shape[0], width))
    _gated[(rows.shape[0], triton.cdiv(width, 1024))](rows, out, width, BLOCK=1024, num_warps=4)
    return out.view(*both.shape[:-1], width)


@triton.jit
def _advance(state, key, value, query, decay, write, out,
             K_DIM: tl.constexpr, V_DIM: tl.constexpr, K_PAD: tl.constexpr, V_BLOCK: tl.constexpr, ERASE: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, K_PAD)
    v = tl.program_id(1) * V_BLOCK + tl.arange(0, V_BLOCK)
    at = state + row * K_DIM * V_DIM + k[:, None] * V_DIM + v[None, :]
    here = (k < K_DIM)[:, None] & (v < V_DIM)[None, :]
    kept = tl.load(at, mask=here, other=0.0).to(tl.float32) * tl.load(decay + row).to(tl.float32)
    keys = tl.load(key + row * K_DIM + k, mask=k < K_DIM, other=0.0).to(tl.float32)
    queries = tl.load(query + row * K_DIM + k, mask=k < K_DIM, other=0.0).to(tl.float32)
    values = tl.load(value + row * V_DIM + v, mask=v < V_DIM, other=0.0).to(tl.float32)
    if ERASE:
        values -= tl.sum(kept * keys[:, None], 0)
    kept += keys[:, None] * (values * tl.load(write + row).to(tl.float32))[None, :]
    tl.store(at, kept.to(state.dtype.element_ty), mask=here)
    tl.store(out + row * V_DIM + v, tl.sum(kept * queries[:, None], 0), mask=v < V_DIM)


def advance(
    state: Tensor, key: Tensor, value: Tensor, query: Tensor, decay: Tensor, write: Tensor, *, erase: bool
) -> Tensor:
    """See kvplan.verify.live.kernels.fused.advance."""
    batch, heads, k_dim, v_dim = state.shape
    out = torch.empty((batch, heads, v_dim), dtype=torch.float32, device=state.device)
    k_pad = triton.next_power_of_2(k_dim)
    v_block = min(triton.next_power_of_2(v_dim), max(16, 8192 // k_pad))
    _advance[(batch * heads, triton.cdiv(v_dim, v_block))](
        state, key.contiguous(), value.contiguous(), query.contiguous(), decay.contiguous(), write.contiguous(), out,
        K_DIM=k_dim, V_DIM=v_dim, K_PAD=k_pad, V_BLOCK=v_block, ERASE=erase, num_warps=4,
    )  # fmt: skip
    return out
