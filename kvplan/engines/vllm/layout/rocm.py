"""What vLLM's kernels for AMD make of weights: rows that lie further apart, and the room that copying them wastes.

A copy whose rows lie 256 bytes further apart replaces each such matrix after loading, one after another, and PyTorch's
allocator keeps a segment that a smaller copy moved into (kvplan/engines/vllm/layout/gaps.py). On AMD a log prints what the device has
given away, those rests included.

Source: vLLM model_executor/layers/fused_moe/unquantized_fused_moe_method.py _maybe_pad_weight,
quantization/utils/fp8_utils.py _maybe_pad_fp8_weight, platforms/rocm.py get_current_memory_usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import BF16, FP16, Storage
from kvplan.arch.weights import Block, Weight
from kvplan.engines.vllm.layout.gaps import Replaced, gaps
from kvplan.engines.vllm.layout.merged import merged
from kvplan.engines.vllm.tables.versions import Version

APART, TOGETHER = 256, 512
"""Bytes that rows of a multiple of so many bytes are moved apart by."""

COPIES_KEPT: tuple[tuple[Version, Version], ...] = (((0, 8, 0), (0, 20, 0)), ((0, 25, 0), (0, 30, 0)))
"""Releases, from one up to the next, whose 16-bit experts stay where their copy with wider rows is.

In between a contiguous copy undoes it (oracle/unquantized.py convert_to_unquantized_kernel_format); later the wider rows are
copied back into the tensor that was loaded (unquantized_fused_moe_method.py process_weights_after_loading).
"""


def apart(weight: Weight, shard: tuple[int, ...], version: Version) -> tuple[int, ...]:
    """The shape that one rank's share of a weight takes: experts in 16 bit, other matrices in fp8 by tensor or by tile."""
    if not weight.linear or len(shard) != 2 or not _moved(weight, version):
        return shard
    size = weight.stored.bits // 8
    return shard if shard[1] * size % TOGETHER else (shard[0], shard[1] + APART // size)


def wasted(layers: Sequence[Block], parallel: Parallel, version: Version) -> int:
    """Bytes of one rank that no tensor uses once these layers were copied, in their order."""
    return gaps(replaced for block in layers for replaced in _replaced(block, parallel, version))


def _moved(weight: Weight, version: Version) -> bool:
    if weight.routed:
        return weight.stored in (BF16, FP16) and any(since <= version < until for since, until in COPIES_KEPT)
    return _fp8_by_tensor_or_tile(weight.stored)


def _fp8_by_tensor_or_tile(stored: Storage) -> bool:
    """Not by row: those aren't moved."""
    return (
        "fp8" in stored.name and stored.bits == 8 and not stored.row_bits and stored.group_rows == max(1, stored.group)
    )


def _replaced(block: Block, parallel: Parallel, version: Version) -> Iterator[Replaced]:
    """The tensors of a layer that are moved."""
    for tensor in merged(block):
        before = after = 0
        for weight in tensor:
            shard, copies = weight.on_rank(parallel)
            size = copies * weight.stored.bits // 8
            before += size * prod(shard)
            after += size * prod(apart(weight, shard, version))
        if after > before:
            yield Replaced(before, after)
