"""Cache formats in torch: which dtype holds an element, where scales live, and the way there and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvplan.arch.formats import FORMATS, Format

_SCALE = {32: torch.float32, 16: torch.float16, 8: torch.float8_e8m0fnu}
_FIXED_INT8 = 1 / 16
"""Per-tensor scale of plain int8: the values written here stay below 8 in magnitude."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How a format keeps a row of `dim` elements in tensors.

    dtype: of an element. group: elements that share a scale, None without stored scales. scale: its dtype.
    largest: magnitude of the largest element, None for formats that need no scaling.
    """

    dtype: torch.dtype
    group: int | None = None
    scale: torch.dtype | None = None
    largest: float | None = None

    @property
    def native(self) -> bool:
        """Whether elements are numbers as they stand."""
        return self.largest is None

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Elements and scales of rows [..., dim]; scales are [..., dim / group]."""
        if self.largest is None:
            return rows.to(self.dtype), None
        if self.group is None or self.scale is None:
            fixed = rows / _FIXED_INT8 if self.dtype == torch.int8 else rows
            return self._rounded(fixed, self.largest), None
        grouped = rows.unflatten(-1, (-1, self.group))
        scale = self._scale_of(grouped)
        return self._rounded(grouped / scale.to(rows.dtype).unsqueeze(-1), self.largest).flatten(-2), scale

    def decode(self, elements: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Rows again, in `dtype`."""
        rows = elements.to(dtype)
        if scale is not None and self.group is not None:
            return (rows.unflatten(-1, (-1, self.group)) * scale.to(dtype).unsqueeze(-1)).flatten(-2)
        return rows * _FIXED_INT8 if self.dtype == torch.int8 else rows

    @property
    def fixed_scale(self) -> float:
        """What elements are multiplied by when no scale is stored."""
        return _FIXED_INT8 if self.dtype == torch.int8 and self.group is None else 1.0

    def _scale_of(self, grouped: Tensor) -> Tensor:
        assert self.scale is not None and self.largest is not None  # noqa: S101, PT018 - both or neither
        wanted = grouped.abs().amax(-1).float().clamp_min(2.0**-20) / self.largest
        if self.scale == torch.float8_e8m0fnu:
            wanted = torch.exp2(torch.ceil(torch.log2(wanted)))
        return wanted.to(self.scale)

    def _rounded(self, scaled: Tensor, largest: float) -> Tensor:
        bounded = scaled.clamp(-largest, largest)
        return (bounded.round() if self.dtype == torch.int8 else bounded).to(self.dtype)


_NATIVE = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_E4M3, _INT8 = (torch.float8_e4m3fn, 448.0), (torch.int8, 127.0)
_EIGHT_BITS = {
    "fp8": _E4M3, "fp8_per_token_head": _E4M3, "mxfp8": _E4M3, "fp8 with scale": _E4M3,
    "fp8_e5m2": (torch.float8_e5m2, 57_344.0),
    "int8": _INT8, "int8_per_token_head": _INT8, "q8_0": _INT8,
}  # fmt: skip
"""Elements of formats with eight bits, and the largest of them. Others have eight bits as well that are packed otherwise."""

HELD_FORMATS = tuple(name for name in FORMATS if name in _NATIVE or name in _EIGHT_BITS)
"""What a person may ask for."""


def stored(format_: Format, dim: int) -> Stored | None:
    """How torch keeps rows of `dim` elements in that format; None for formats that no torch dtype can hold."""
    if format_.name in _NATIVE:
        return Stored(_NATIVE[format_.name])
    if format_.name not in _EIGHT_BITS or format_.scale_bits + format_.row_bits not in (0, *_SCALE):
        return None
    dtype, largest = _EIGHT_BITS[format_.name]
    if format_.row_bits:
        return Stored(dtype, dim, _SCALE[format_.row_bits], largest)
    if format_.scale_bits:
        return None if dim % format_.block else Stored(dtype, format_.block, _SCALE[format_.scale_bits], largest)
    return Stored(dtype, largest=largest)
