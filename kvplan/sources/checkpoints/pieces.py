"""Tensors of a checkpoint as parts of modules, and how many elements each holds."""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

from kvplan.sources.checkpoints.modules import Module, module
from kvplan.sources.checkpoints.tensors import Tensor

WORDS = {"U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32}
"""Bits of the integers that quantization packs elements into, by dtype."""
WIDTHS = (1, 2, 3, 4, 5, 6, 8)
"""Bits of packed elements: configs may state others than some modules have."""
TABLES = ("I16", "I32")
FEW_BITS = ("F8", "F6", "F4")
"""Beginnings of the dtypes of elements that are as they are stored, in fewer than 16 bits."""
_EXPERT = re.compile(r"experts\.(\d+)\.")


class Piece(NamedTuple):
    """A tensor and what of its layer it is. expert: its number, if the name says one."""

    tensor: Tensor
    module: Module
    expert: int | None

    @property
    def has_elements(self) -> bool:
        """Whether it is a matrix, packed or not, or a vector: no scale, order or fact of one."""
        return self.module.part in ("matrix", "packed", "bias")


def piece(tensor: Tensor, inner: str) -> Piece:
    """A tensor whose name within its layer is `inner`."""
    found = _EXPERT.search(inner)
    if found is None:
        return Piece(tensor, module(inner), None)
    return Piece(tensor, module(f"{inner[: found.start(1)]}0{inner[found.end(1) :]}"), int(found[1]))


def in_few_bits(one: Piece) -> bool:
    """Whether its elements take fewer than 16 bits, as far as its dtype says: GGUF's carry their scales.

    Signed words hold some only by a name that says so: a plain matrix of them is a table (DeepSeek-V4's tid2eid).
    """
    dtype = one.tensor.dtype
    return (dtype in WORDS and (one.module.part == "packed" or dtype not in TABLES)) or dtype.startswith(FEW_BITS)


def elements(tensor: Tensor, bits: int) -> int | None:
    """Elements that a tensor holds. bits: of an element, as the config has it; None where packed ones aren't told by that."""
    if tensor.dtype not in WORDS:
        return prod(tensor.shape)
    if bits > WORDS[tensor.dtype] or bits >= 16:
        return None
    return tensor.bytes * 8 // bits


def capacity(tensor: Tensor, least_bits: int) -> int:
    """Elements that a tensor can hold at most. least_bits: of a packed element."""
    return tensor.bytes * 8 // least_bits if tensor.dtype in WORDS else prod(tensor.shape)
