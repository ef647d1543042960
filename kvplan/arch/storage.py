"""Storage formats of weights: the bits of an element, and the scales that groups, rows and tensors share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvplan.arch.formats import DTYPE_ALIASES

if TYPE_CHECKING:
    from kvplan.arch.weights import Weight, Weights


@dataclass(frozen=True, slots=True)
class Storage:
    """How a matrix of `rows` (outputs) by `columns` (inputs) is stored.

    bits: of an element, packed. group, group_bits: every `group` inputs of every `group_rows` outputs share group_bits
    of scales and zero points. row_bits: per output (a per-channel scale). column_bits: per input (an order of inputs).
    tensor_bits: once per matrix.
    """

    name: str
    bits: int
    group: int = 0
    group_rows: int = 1
    group_bits: int = 0
    row_bits: int = 0
    column_bits: int = 0
    tensor_bits: int = 0
    source: str = "a dtype without scales"

    def chooser(self, weights: Weights) -> Callable[[Weight, int | None], Storage]:
        """The storage of each weight: this one for linear layers, and for all weights if it is a plain dtype."""
        plain = self.name in DTYPES

        def choose(weight: Weight, layer: int | None) -> Storage:  # noqa: ARG001 - the same in every layer
            return self if plain or weight.quantizable else weight.stored

        return choose

    def bits_of(self, rows: int, columns: int) -> int:
        """Bits of one matrix, scales included."""
        bits = rows * columns * self.bits + rows * self.row_bits + columns * self.column_bits + self.tensor_bits
        if self.group:
            bits += -(-rows // self.group_rows) * -(-columns // self.group) * self.group_bits
        return bits

    def bytes(self, rows: int, columns: int) -> int:
        """Bytes of one matrix, scales included."""
        return -(-self.bits_of(rows, columns) // 8)


BF16 = Storage("bf16", 16)
FP16 = Storage("fp16", 16)
FP32 = Storage("fp32", 32)
DTYPES = {storage.name: storage for storage in (BF16, FP16, FP32)}

FP8_SOURCE = "vLLM 0.33 quantization/fp8.py: one fp32 scale per matrix, one more for static activations"
FP8_BLOCK_SOURCE = "DeepSeek-V3 repository, weight_scale_inv: one fp32 scale per block"
CHANNEL_SOURCE = "compressed-tensors format, config_groups: one fp32 scale per output channel"
GPTQ_SOURCE = (
    "GPTQ, arXiv:2210.17323; AutoGPTQ format: fp16 scale and packed zero point per group; int32 g_idx per input"
)
AWQ_SOURCE = "AWQ, arXiv:2306.00978; AutoAWQ format: fp16 scale and packed zero point per group"
QUARK_SOURCE = "AMD Quark's export: packed integers, a 16-bit scale and a zero point per group"
NVFP4_SOURCE = "NVFP4: fp8 scale per 16 elements, fp32 scale per matrix and for its input"
OCP_SOURCE = "OCP Microscaling Formats specification 1.0: one 8-bit scale per 32 elements"
BNB_SOURCE = "QLoRA, arXiv:2305.14314; bitsandbytes: absmax per 64 elements, 8 bit when quantized twice"
MLX_SOURCE = "MLX quantized linear layers: 16-bit scale and bias per group, embeddings and head included"
HEADERS_SOURCE = "the checkpoint's headers"
GGML_SOURCE = "ggml-common.h: sizes of block_q8_0, block_q4_K and their kin"

MXFP4 = Storage("mxfp4", 4, 32, 1, 8, source=OCP_SOURCE)
MXFP8 = Storage("mxfp8", 8, 32, 1, 8, source=OCP_SOURCE)
NVFP4 = Storage("nvfp4", 4, 16, 1, 8, tensor_bits=64, source=NVFP4_SOURCE)
FP8_TENSOR = Storage("fp8 per tensor", 8, tensor_bits=64, source=FP8_SOURCE)
FP8_ROW = Storage("fp8 per channel", 8, row_bits=32, source=CHANNEL_SOURCE)
FP8_BLOCK = Storage("fp8 in blocks of 128 x 128", 8, 128, 128, 32, source=FP8_BLOCK_SOURCE)
INT8_ROW = Storage("int8 per channel", 8, row_bits=32, source=CHANNEL_SOURCE)
NF4 = Storage("nf4 in groups of 64", 4, 64, 1, 8, source=BNB_SOURCE)


def integer(
    bits: int, group: int, *, zero_bits: int, column_bits: int = 0, tensor_bits: int = 0, source: str = GPTQ_SOURCE
) -> Storage:
    """Packed integers with a 16-bit scale and a zero point per group of inputs. group: -1 for whole rows."""
    name = f"int{bits} in {f'groups of {group}' if group > 0 else 'whole rows'}"
    scale = 16 + zero_bits
    if group > 0:
        return Storage(name, bits, group, 1, scale, column_bits=column_bits, tensor_bits=tensor_bits, source=source)
    return Storage(name, bits, row_bits=scale, column_bits=column_bits, tensor_bits=tensor_bits, source=source)


def _ggml(name: str, bits: int, block: int, block_bytes: int) -> Storage:
    """A GGUF format, whose blocks contain their scales: the bits beyond the elements are scales and zero points."""
    return Storage(name, bits, block, 1, block_bytes * 8 - bits * block, source=GGML_SOURCE)


INT4 = integer(4, 128, zero_bits=4, source=AWQ_SOURCE)
GGML = {
    storage.name: storage
    for storage in (
        _ggml("q8_0", 8, 32, 34), _ggml("q6_k", 6, 256, 210), _ggml("q5_k", 5, 256, 176), _ggml("q5_1", 5, 32, 24), _ggml("q5_0", 5, 32, 22),
        _ggml("q4_k", 4, 256, 144), _ggml("q4_1", 4, 32, 20), _ggml("q4_0", 4, 32, 18), _ggml("q3_k", 3, 256, 110), _ggml("q2_k", 2, 256, 84),
    )
}  # fmt: skip
"""Tensor types of GGUF files."""
FILES = frozenset(("q8_0", "q6_k", "q5_1", "q5_0", "q4_1", "q4_0", "q2_k"))
"""Tensor types that also name a mix for whole files: see kvplan/families/quantization/mixes.py."""

NAMED: dict[str, Storage] = {
    **DTYPES, "fp8": FP8_ROW, "fp8_block": FP8_BLOCK, "fp8_tensor": FP8_TENSOR, "int8": INT8_ROW, "int4": INT4, "nvfp4": NVFP4,
    "mxfp4": MXFP4, "mxfp8": MXFP8, "nf4": NF4,
    **{name: storage for name, storage in GGML.items() if name not in FILES},
}  # fmt: skip
"""Formats that --weight-dtype knows, besides llama.cpp's mixes."""

ALIASES = {
    **DTYPE_ALIASES, "gptq": "int4", "awq": "int4", "w4a16": "int4", "w8a8": "int8", "w8a16": "int8", "fp4": "nvfp4",
    "int4_awq": "int4",
}  # fmt: skip
