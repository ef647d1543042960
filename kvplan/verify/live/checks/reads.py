"""Check b for reads: a step reads the predicted bytes of cache and uses the predicted bytes of weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kvplan.verify.line import Point
from kvplan.verify.live.checks.bytes_held import lacking
from kvplan.verify.live.kernels import fused
from kvplan.verify.live.kernels.attend import by_spans
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.ledger import bytes_of
from kvplan.verify.predict import Predicted
from kvplan.verify.verdict import Row, exact, not_run


class _Used(TorchDispatchMode):
    """Records the parts of weights that operations use, and the bytes of rows looked up in tables."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        self._known = {_place(weight): weight for weight in weights if weight.numel()}
        self._parts: dict[int, dict[object, int]] = {}
        self._looked_up = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Record the operation and run it.

        A view of a weight reads nothing. An operation on the view reads only that part.
        """
        if func is torch.ops.aten.embedding.default:
            table, ids = args[:2]
            self._looked_up += ids.numel() * table.shape[-1] * table.element_size()
        elif not func.is_view:
            for one in tree_leaves((args, kwargs)):
                if isinstance(one, Tensor) and (place := _place(one)) in self._known:
                    self._parts.setdefault(place, {})[_part(one)] = one.numel() * one.element_size()
        return func(*args, **(kwargs or {}))

    @property
    def bytes(self) -> int:
        """Bytes of all parts, each counted once, and of the rows."""
        whole = {place: bytes_of((weight,)) for place, weight in self._known.items()}
        return self._looked_up + sum(min(whole[place], sum(parts.values())) for place, parts in self._parts.items())


def _place(tensor: Tensor) -> int:
    """Where its memory begins, which all views of it share."""
    return tensor.untyped_storage().data_ptr()


def _part(tensor: Tensor) -> object:
    """The elements of its memory that a view has, in whatever order of dimensions."""
    steps = sorted((step, size) for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    return tensor.storage_offset(), tuple(steps)


@dataclass(frozen=True, slots=True)
class Counted:
    """Bytes of cache read and of weights used by one step of `batch` sequences, counted in the step itself.

    touched: experts used by the step, for each layer with experts.
    """

    batch: int
    cache: int
    weights: int
    touched: tuple[int, ...] = ()


def count(decoder: Decoder, ids: Tensor, tokens: int) -> Counted:
    """Count one step of plain torch on the allocated caches, for one sequence of `tokens` per id."""
    at = decoder.at(tokens - 1, by_spans)
    # torch doesn't see what Triton reads, and sees all experts multiplied in one launch, used or not.
    with fused.plain(), _Used(decoder.build.ledger.tensors("weights")) as used:
        decoder.step(ids, at)
    return Counted(len(ids), at.cache_bytes, used.bytes, tuple(experts.distinct() for experts in decoder.experts))


def step(predicted: Predicted, counted: Counted, tokens: int) -> Iterator[Row]:
    """Rows for one counted step with sequences of `tokens`, against the prediction."""
    what = f"cache asked for by a step of {counted.batch} x {tokens} tokens"
    yield exact("bytes", what, "B", counted.batch * predicted.reads(tokens), counted.cache)
    yield weights(predicted, counted)


def weights(predicted: Predicted, counted: Counted) -> Row:
    """Bytes of weights, exact. For experts the prediction uses their counted number, which depends on routing.

    For one sequence the number is known, and nothing is taken from the count.
    """
    what = f"weights used by a step of {'one sequence' if counted.batch == 1 else f'{counted.batch} sequences'}"
    reason = lacking(predicted)
    if reason is not None:
        return not_run("bytes", what, "B", reason, predicted.weights_read(counted.batch))
    if counted.batch == 1 or not counted.touched:
        expected = predicted.weights_read(counted.batch)
    else:
        expected = predicted.weights_read_touching(counted.batch, counted.touched)
    if expected is None:
        return not_run("bytes", what, "B", "the inventory lists experts in other layers than those that have some")
    row = exact("bytes", what, "B", expected, counted.weights)
    return replace(row, rule=f"{row.rule}, of the experts that it touched") if counted.touched else row


def timed(points: Sequence[Point]) -> Row:
    """All timed steps together, except those that end within a chunk, because predictions are for whole ones."""
    counted = [point for point in points if point.whole]
    what = f"cache asked for by {len(counted)} steps that were timed"
    if not counted:
        return not_run("bytes", what, "B", "every step ends within a chunk, and predictions are of whole ones")
    expected = sum(point.kv_bytes for point in counted)
    return exact("bytes", what, "B", expected, sum(point.asked_bytes for point in counted))
