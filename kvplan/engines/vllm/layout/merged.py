"""Which weights of a layer are one tensor in vLLM, and what PyTorch's allocator counts behind each on NVIDIA's GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod

from kvplan.arch.parallel import Parallel, stage_layers
from kvplan.arch.weights import Block, Weight
from kvplan.engines.vllm.layout.gaps import ends
from kvplan.engines.vllm.tables.versions import Version

UNSPLIT: Version = (0, 21, 0)
"""The first release that loads weights without splitting large segments. Source: v1/worker/gpu_worker.py load_model."""


def merged(block: Block) -> Iterator[tuple[Weight, ...]]:
    """Matrices next to each other that read the same inputs are one tensor: q, k and v; gate and up."""
    matrices = (weight for weight in block if len(weight.shape) > 1)
    for _, tensor in groupby(
        matrices, key=lambda weight: (weight.component, weight.routed, weight.split, weight.shape[-1])
    ):
        yield tuple(tensor)


def counted_ends(layers: Sequence[Block], parallel: Parallel, version: Version) -> int:
    """Bytes on the fullest rank that count as allocated behind the tensors of a model's layers."""
    start, most = 0, 0
    for count in stage_layers(len(layers), parallel.pp):
        most = max(most, ends_of(layers[start : start + count], parallel, version))
        start += count
    return most


def ends_of(layers: Sequence[Block], parallel: Parallel, version: Version) -> int:
    """Bytes on one rank that count as allocated behind the tensors of these layers."""
    counts = Counter(map(id, layers))  # equal layers are one tuple
    distinct = {id(block): block for block in layers}
    return sum(count * _ends_of(distinct[one], parallel, version) for one, count in counts.items())


def _ends_of(block: Block, parallel: Parallel, version: Version) -> int:
    return ends((_size(tensor, parallel) for tensor in merged(block)), unsplit=version >= UNSPLIT)


def _size(tensor: tuple[Weight, ...], parallel: Parallel) -> int:
    """Bytes of its elements on one rank; scales are tensors of their own."""
    shares = ((weight.on_rank(parallel), weight.stored.bits) for weight in tensor)
    return sum(copies * prod(shard) * bits // 8 for (shard, copies), bits in shares)
