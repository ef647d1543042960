"""Check b, of reading: a step asks for the bytes of cache and uses the bytes of weights that it was predicted to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kvplan.verify import ladder
from kvplan.verify.line import Point
from kvplan.verify.live import fused
from kvplan.verify.live.attend import by_spans
from kvplan.verify.live.check_bytes import lacking
from kvplan.verify.live.decoder import Decoder
from kvplan.verify.live.ledger import bytes_of
from kvplan.verify.parts import Blueprint
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import Row, exact, not_run


class _Used(TorchDispatchMode):
    """Which weights the operations within it were given, and how many bytes of rows were looked up in a table."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        self._known = {_place(weight): weight for weight in weights if weight.numel()}
        self.whole: dict[int, Tensor] = {}
        self.looked_up = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Note and go on."""
        if func is torch.ops.aten.embedding.default:
            table, ids = args[:2]
            self.looked_up += ids.numel() * table.shape[-1] * table.element_size()
        else:
            given = (one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor))
            self.whole |= {place: self._known[place] for place in map(_place, given) if place in self._known}
        return func(*args, **(kwargs or {}))


def _place(tensor: Tensor) -> int:
    """Where its memory begins, which is the same for every view of it."""
    return tensor.untyped_storage().data_ptr()


def step(predicted: Predicted, decoder: Decoder, ids: Tensor, tokens: int) -> Iterator[Row]:
    """One step of plain torch on the caches that stand, for one sequence of `tokens`: cache asked for, weights used.

    One sequence, because then experts are as many as were picked and no matter of luck.
    """
    at = decoder.at(tokens - 1, by_spans)
    # What goes through Triton, torch doesn't see.
    with fused.plain(), _Used(decoder.build.ledger.tensors("weights")) as used:
        decoder.step(ids, at)
    yield exact(
        "bytes", f"cache asked for by a step of 1 x {tokens} tokens", "B", predicted.reads(tokens), at.cache_bytes
    )
    what = "weights used by a step of one sequence"
    expected, reason = predicted.weights_read(1), lacking(predicted)
    if expected is None or reason is not None:
        yield not_run("bytes", what, "B", reason or "", expected)
        return
    yield exact("bytes", what, "B", expected, used.looked_up + bytes_of(tuple(used.whole.values())) - _idle(decoder))


def _idle(decoder: Decoder) -> int:
    """Bytes of experts that no token picked: an operation is given all of them in one tensor."""
    return sum(
        bytes_of((one.up, one.down)) // one.part.experts * (one.part.experts - one.distinct())
        for one in decoder.experts
    )


def timed(plan: Blueprint, points: Sequence[Point]) -> Row:
    """All steps of the ladder together, but for those that end within a chunk: predictions are of whole ones."""
    counted = [point for point in points if ladder.whole(plan, point.context)]
    what = f"cache asked for by {len(counted)} steps that were timed"
    if not counted:
        return not_run("bytes", what, "B", "every step ends within a chunk, and predictions are of whole ones")
    expected = sum(point.kv_bytes for point in counted)
    return exact("bytes", what, "B", expected, sum(point.asked_bytes for point in counted))
