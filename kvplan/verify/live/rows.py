"""The cache's memory: rows of vectors, allocated in advance, contiguous or in pages."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from kvplan.arch.formats import Format
from kvplan.errors import Unsupported
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.stored import Stored, stored
from kvplan.verify.options import HELD_FORMATS

_SCALES = (2.0**-8, 2.0**-6)
"""Scales of made-up rows, all different, so that a reader with another row's scale gives a wrong answer."""
_BYTES_OF_SCALES = (119, 122)
"""The same in float8_e8m0fnu, whose value is 2^(byte - 127); without the last."""
_BELOW_TWO, _UP_TO_448 = 0xBF, 0xFE
"""Of an eight-bit float, the first clears the exponent's first bit, the second the last bit of all: no infinity, no NaN."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where rows are. page: None for one run per head; otherwise tokens of a page, behind a shuffled table."""

    page: int | None = None

    def rounded(self, slots: int) -> int:
        """Slots that are really allocated."""
        return slots if self.page is None else -(-slots // self.page) * self.page

    def table(self, ledger: Ledger, batch: int, slots: int) -> Tensor | None:
        """Pages [batch, pages of a sequence] in random order, as after a long time of serving."""
        if self.page is None:
            return None
        pages = -(-slots // self.page)
        table = ledger.tensor((batch, pages), torch.int32, "tables")
        order = torch.randperm(batch * pages, generator=ledger.random, device=ledger.device)
        return table.copy_(order.view(batch, pages))


class Rows:
    """`slots` vectors of `dim` elements for each of `batch` sequences and `heads` heads.

    elements: [batch, heads, slots, dim], or [pages, heads, page, dim] behind `table`, which keys and values share.
    scales: the same without dim, one entry per group of elements; None if the format stores none.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        batch: int,
        heads: int,
        slots: int,
        dim: int,
        format_: Format,
        dtype: torch.dtype,
        layout: Layout,
        table: Tensor | None,
    ) -> None:
        how = stored(format_, dim)
        if how is None:
            raise Unsupported(
                f"verify can't store rows of {dim} elements in {format_.name}",
                cause="no torch dtype holds its elements and scales",
                hint=f"cache formats it can hold: {', '.join(HELD_FORMATS)}",
            )
        self.batch, self.heads, self.dim, self.dtype, self.layout = batch, heads, dim, dtype, layout
        self.how: Stored = how
        self.slots = layout.rounded(slots)
        self.table = table
        shape: tuple[int, ...] = (batch, heads, self.slots)
        if layout.page is not None:
            shape = (batch * self.slots // layout.page, heads, layout.page)
        self.elements = ledger.tensor((*shape, dim), how.dtype, "cache")
        self.scales: Tensor | None = None
        if how.group is not None and how.scale is not None:
            groups = (dim // how.group,)
            self.scales = ledger.tensor((*shape, *groups), how.scale, "cache")

    def tensors(self) -> tuple[Tensor, ...]:
        """Everything stored except page tables."""
        return (self.elements,) if self.scales is None else (self.elements, self.scales)

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot of one sequence: vectors of all heads and their scales."""
        each = self.dim * self.elements.element_size()
        if self.scales is not None:
            each += self.scales.shape[-1] * self.scales.element_size()
        return self.heads * each

    def write(self, slot: int, vectors: Tensor) -> None:
        """Store one vector [batch, heads, dim] per sequence and head."""
        elements, scales = self.how.encode(vectors)
        for kept, new in ((self.elements, elements), (self.scales, scales)):
            if kept is not None and new is not None:
                _put(kept, slot, new, self.table, self.layout.page)

    def read(self, start: int, stop: int) -> Tensor:
        """Vectors [batch, heads, stop - start, dim] of consecutive slots, as numbers."""
        elements = _get(self.elements, start, stop, self.table, self.layout.page)
        scales = None if self.scales is None else _get(self.scales, start, stop, self.table, self.layout.page)
        return self.how.decode(elements, scales, self.dtype)

    def picked(self, slots: Tensor) -> Tensor:
        """Vectors [batch, heads, n, dim] of the slots [batch, n], as numbers."""
        elements = _pick(self.elements, slots, self.table, self.layout.page)
        scales = None if self.scales is None else _pick(self.scales, slots, self.table, self.layout.page)
        return self.how.decode(elements, scales, self.dtype)

    def of(self, sequence: int) -> Rows:
        """The rows of one sequence, as views."""
        one = copy.copy(self)
        only = slice(sequence, sequence + 1)
        one.batch = 1
        if self.table is not None:
            one.table = self.table[only]
        else:
            one.elements = self.elements[only]
            one.scales = None if self.scales is None else self.scales[only]
        return one

    def round_trip(self, vectors: Tensor) -> Tensor:
        """The value of a vector after storing and reading it."""
        elements, scales = self.how.encode(vectors)
        return self.how.decode(elements, scales, self.dtype)

    def fill(self, ledger: Ledger) -> None:
        """Fill all slots with random numbers. With scales, elements use their whole range."""
        fill(self.elements, ledger.random, _BELOW_TWO if self.scales is None else _UP_TO_448)
        if self.scales is not None and self.scales.dtype == torch.float8_e8m0fnu:
            self.scales.view(torch.uint8).random_(*_BYTES_OF_SCALES, generator=ledger.random)
        elif self.scales is not None:
            self.scales.uniform_(*_SCALES, generator=ledger.random)


def _raw(tensor: Tensor) -> Tensor:
    """Eight-bit floats as bytes, because torch can't copy them by index on all devices."""
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor


def _put(kept: Tensor, slot: int, new: Tensor, table: Tensor | None, page: int | None) -> None:
    if table is None or page is None:
        _raw(kept)[:, :, slot] = _raw(new)
    else:
        _raw(kept)[table[:, slot // page].long(), :, slot % page] = _raw(new)


def _get(kept: Tensor, start: int, stop: int, table: Tensor | None, page: int | None) -> Tensor:
    if table is None or page is None:
        return kept[:, :, start:stop]
    first, last = start // page, -(-stop // page)
    pages = _raw(kept)[table[:, first:last].long()]  # [batch, pages, heads, page, width]
    runs = pages.transpose(1, 2).flatten(2, 3)[:, :, start - first * page : stop - first * page]
    return runs.view(kept.dtype)


def _pick(kept: Tensor, slots: Tensor, table: Tensor | None, page: int | None) -> Tensor:
    raw = _raw(kept)
    if table is None or page is None:
        return raw.gather(2, slots[:, None, :, None].expand(-1, raw.shape[1], -1, raw.shape[3])).view(kept.dtype)
    pages = table.gather(1, slots // page).long()
    return raw[pages, :, slots % page].transpose(1, 2).contiguous().view(kept.dtype)


def fill(tensor: Tensor, random: torch.Generator, mask: int = _BELOW_TWO) -> None:
    """Finite random numbers of both signs, in any dtype. mask: bits that an eight-bit float may have."""
    if tensor.dtype.itemsize == 1:
        raw = tensor.view(torch.uint8).random_(0, 256, generator=random)
        if tensor.dtype.is_floating_point:
            raw.bitwise_and_(mask)
    else:
        tensor.uniform_(-1, 1, generator=random)
