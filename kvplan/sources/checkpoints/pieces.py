"""Tensors of a checkpoint as parts of modules, and how many elements each holds."""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

from kvplan.sources.checkpoints.modules import Module, module
from kvplan.sources.checkpoints.tensors import Tensor

WORDS = {"U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32}
"""Bits of the integers that elements are packed into, by dtype."""
WIDTHS = (1, 2, 3, 4, 5, 6, 8)
"""Possible bits of packed elements, because some modules differ from what the config states."""
TABLES = ("I16", "I32")
FEW_BITS = ("F8", "F6", "F4")
"""Prefixes of dtypes whose elements are stored as they are in fewer than 16 bits."""
_EXPERT = re.compile(r"experts\.(\d+)\.")


class Piece(NamedTuple):
    """A tensor and what it holds of its layer. expert: its number, None if the name states none."""

    tensor: Tensor
    module: Module
    expert: int | None

    @property
    def has_elements(self) -> bool:
        """Whether it holds a matrix, packed or not, or a vector, and not scales, orders or facts."""
        return self.module.part in ("matrix", "packed", "bias")


def piece(tensor: Tensor, inner: str) -> Piece:
    """A tensor whose name within its layer is `inner`."""
    found = _EXPERT.search(inner)
    if found is None:
        return Piece(tensor, module(inner), None)
    return Piece(tensor, module(f"{inner[: found.start(1)]}0{inner[found.end(1) :]}"), int(found[1]))


def in_few_bits(one: Piece) -> bool:
    """Whether its elements take fewer than 16 bits, by its dtype. GGUF's types include their scales.

    Signed integers count as packed only if the name says so: a plain matrix of them is a table (DeepSeek-V4's tid2eid).
    """
    dtype = one.tensor.dtype
    return (dtype in WORDS and (one.module.part == "packed" or dtype not in TABLES)) or dtype.startswith(FEW_BITS)


def elements(tensor: Tensor, bits: int) -> int | None:
    """Elements that a tensor holds. bits: per element by the config. None if packed elements don't follow from it."""
    if tensor.dtype not in WORDS:
        return prod(tensor.shape)
    if bits > WORDS[tensor.dtype] or bits >= 16:
        return None
    return tensor.bytes * 8 // bits


def capacity(tensor: Tensor, least_bits: int) -> int:
    """Most elements that a tensor can hold. least_bits: of a packed element."""
    return tensor.bytes * 8 // least_bits if tensor.dtype in WORDS else prod(tensor.shape)
