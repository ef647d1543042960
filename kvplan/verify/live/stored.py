"""Cache formats in torch: the dtype of an element, the place of scales, encoding and decoding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvplan.arch.formats import Format

_FIXED_INT8 = 1 / 16
"""Per-tensor scale of plain int8. All values written here are below 8 in magnitude."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How a format stores a row of `dim` elements in tensors.

    dtype: of an element. group: elements that share a scale, None without stored scales. scale: its dtype. largest:
    magnitude of the largest element, None for formats that need no scaling.
    """

    dtype: torch.dtype
    group: int | None = None
    scale: torch.dtype | None = None
    largest: float | None = None

    @property
    def native(self) -> bool:
        """Whether elements are stored as the numbers they are."""
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
        """The rows, in `dtype`."""
        rows = elements.to(dtype)
        if scale is not None and self.group is not None:
            return (rows.unflatten(-1, (-1, self.group)) * scale.to(dtype).unsqueeze(-1)).flatten(-2)
        return rows * _FIXED_INT8 if self.dtype == torch.int8 else rows

    @property
    def fixed_scale(self) -> float:
        """The factor of elements if no scale is stored."""
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


_ROW = 0
"""One scale for all elements of a row."""

_E4M3, _INT8 = (torch.float8_e4m3fn, 448.0), (torch.int8, 127.0)
_KEPT: dict[str, tuple[torch.dtype, float | None, int | None, torch.dtype | None]] = {
    "fp32": (torch.float32, None, None, None),
    "bf16": (torch.bfloat16, None, None, None),
    "fp16": (torch.float16, None, None, None),
    # One scale for the whole tensor, beside the cache: vLLM 0.33 layers/attention/attention.py, k_scale and v_scale.
    "fp8": (*_E4M3, None, None),
    "fp8_e5m2": (torch.float8_e5m2, 57_344.0, None, None),
    "int8": (*_INT8, None, None),
    # vLLM 0.33 v1/kv_cache_interface.py: a float32 for each head of each token.
    "fp8_per_token_head": (*_E4M3, _ROW, torch.float32),
    "int8_per_token_head": (*_INT8, _ROW, torch.float32),
    # vLLM 0.33 layers/sparse_attn_indexer.py: quant_block_size 128, a float32 for each; a shorter row has one.
    "fp8 with scale": (*_E4M3, 128, torch.float32),
    # OCP Microscaling Formats 1.0: 32 elements, a power of two in eight bits.
    "mxfp8": (*_E4M3, 32, torch.float8_e8m0fnu),
    # llama.cpp ggml-common.h: QK8_0 is 32, d is a ggml_half.
    "q8_0": (*_INT8, 32, torch.float16),
}
"""Element, its largest magnitude, elements per scale and dtype of a scale, by the formats' own definitions.

kvplan's table of formats isn't used, because its bytes are what is verified here.
"""


def stored(format_: Format, dim: int) -> Stored | None:
    """How torch stores rows of `dim` elements in the format of that name; None if no torch dtype can hold it."""
    if format_.name not in _KEPT:
        return None
    dtype, largest, group, scale = _KEPT[format_.name]
    if group is not None:
        group = min(group, dim) or dim
        if dim % group:
            return None
    return Stored(dtype, group, scale, largest)
