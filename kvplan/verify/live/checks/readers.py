"""Part of check a at the timed lengths: the chosen reader's answers against plain arithmetic on the same cache.

Small caches show that a kernel's arithmetic is right, but not that it divides a million slots without losing some.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kvplan.verify.live.kernels.attend import Query, span
from kvplan.verify.live.kernels.readers import Fastest, kind_of
from kvplan.verify.verdict import Row, within

_ALLOWED = 0.02
"""Difference allowed, as a part of the largest value in 16 bit: eight steps of bf16's last place."""
_GPU_NUMBERS, _CPU_NUMBERS = 2**22, 2**20
"""Scores, keys or values that are worked on at a time, 16 or 4 MiB each: a check may run with just enough memory."""


class Comparing:
    """A reader that asks another one and compares the first and last sequence of the first query of each kind.

    apart: the largest difference as a part of the largest value, by kind and slots.
    """

    def __init__(self, reader: Fastest) -> None:
        self.reader = reader
        self.apart: dict[str, float] = {}

    def __call__(self, query: Query) -> Tensor:
        """Read, and compare."""
        found = self.reader(query)
        name = f"{' '.join(str(part) for part in kind_of(query) if part)}, {query.slots:,} slots"
        if name not in self.apart:
            self.apart[name] = max(
                _apart(in_full(query.of(sequence)), found[sequence : sequence + 1])
                for sequence in {0, query.queries.shape[0] - 1}
            )
        return found

    def rows(self) -> Iterator[Row]:
        """A row for each kind of query."""
        for name, apart in self.apart.items():
            because = f"as timed; 16-bit results within {_ALLOWED:.1%} of the largest of all scores at once"
            yield within("recompute", f"reading {name}", "difference", 0.0, apart, _ALLOWED, because)


def _apart(right: Tensor, found: Tensor) -> float:
    scale = max(float(right.float().abs().max()), 1e-30)
    difference = float((found.float() - right.float()).abs().max()) / scale
    return difference if difference == difference else float("inf")  # noqa: PLR0124 - NaN


def in_full(query: Query) -> Tensor:
    """Attention of one sequence by its definition (every score, one softmax, every value), a few heads at a time."""
    exact = torch.promote_types(query.queries.dtype, torch.float32)
    kv_heads = query.keys.heads
    asked = query.queries.to(exact).unflatten(1, (kv_heads, -1)) * query.scale
    sinks = None if query.sink is None else query.sink.to(exact).view(kv_heads, -1)
    numbers = _GPU_NUMBERS if asked.is_cuda else _CPU_NUMBERS
    few = max(1, numbers // (kv_heads * query.slots))
    width = max(1, numbers // (kv_heads * query.keys.dim))
    runs = [(start, min(start + width, query.slots)) for start in range(0, query.slots, width)]
    answers = []
    for first in range(0, asked.shape[2], few):
        heads = asked[:, :, first : first + few]
        scores = heads.new_empty((*heads.shape[:3], query.slots))
        for start, stop in runs:
            scores[..., start:stop] = heads @ span(query, start, stop, exact)[0].transpose(-1, -2)
        peak = scores.amax(-1, keepdim=True)
        if sinks is not None:
            sink = sinks[None, :, first : first + few, None]
            peak = torch.maximum(peak, sink)
        total = scores.sub_(peak).exp_().sum(-1, keepdim=True)
        total = total if sinks is None else total + (sink - peak).exp()
        mixed = heads.new_zeros((*heads.shape[:3], query.v_dim))
        for start, stop in runs:
            mixed += scores[..., start:stop] @ span(query, start, stop, exact)[1]
        answers.append(mixed / total)
    return torch.cat(answers, 2).flatten(1, 2)
