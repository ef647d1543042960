"""Experts in mxfp4 and in 16 bit as the kernels want them that vLLM picks on a GPU: rounded sizes, scales in another order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvplan.arch.storage import BF16, FP16, FP32, Storage
from kvplan.arch.weights import Weight, matrix
from kvplan.engines.vllm.blocks.specs import aligned
from kvplan.engines.vllm.tables.versions import NEWEST, Version
from kvplan.hardware.gpu import Gpu

HOPPER, BLACKWELL = 9, 10
"""Major compute capabilities of H100, H200 and GH200; of B200, B300 and GB200."""

TRITON_ACTIVATION, UNROUNDED = "gpt_oss", "compressed-tensors"
"""The type whose activation Triton's kernels have; the method whose experts in mxfp4 keep their sizes.

Source: vLLM 0.33 fused_moe/experts/gpt_oss_triton_kernels_moe.py; compressed_tensors_moe_w4a4_mxfp4.py.
"""

TRITON_BUNDLED: Version = (0, 12, 0)
"""The first release with Triton's kernels for mxfp4 inside: earlier ones fall back to Marlin's unless they were added.

Source: the packages on PyPI, third_party/triton_kernels; has_triton_kernels.
"""

NARROW_TILES: Version = (0, 29, 0)
"""The first release known to round the width of mxfp4 experts to 128, not to 256, for TensorRT-LLM's kernels.

Source: fused_moe/oracle/mxfp4.py of 0.25 and 0.29.
"""

SCALES_FREED: Version = (0, 25, 0)
"""The first release that gives the checkpoint's scales back once Triton's are made. Source: fused_moe/oracle/mxfp4.py of 0.24, 0.25."""

TILED: tuple[Version, Version] = ((0, 17, 0), (0, 22, 0))
"""Releases, the last excluded, whose Triton kernels want values in whole tiles. Source: tensor_details/layout_details/hopper_value.py of each."""

TILE_OUTPUTS, TILE_INPUTS = 64, 128
"""Such a tile. Source: the same, SWIZZLE_ALIGN_M, SWIZZLE_ALIGN_K in bytes of two inputs."""

SCALE_OUTPUTS, SCALE_GROUPS = 256, 2
"""What scales are rounded up to for eight warps. Source: triton_kernels tensor_details/layout_details/hopper_scale.py."""


class Multiples(NamedTuple):
    """What a rank's share of an expert is rounded up to."""

    width: int
    hidden: int = 1


class Kernels(NamedTuple):
    """What decides which kernels run experts: the GPU (None: not known), the release, the model's type, the method.

    common: whether the activation is one that every kernel has.
    """

    gpu: Gpu | None
    version: Version = NEWEST
    family: str = ""
    method: str = ""
    common: bool = True

    @property
    def amd(self) -> bool:
        """Whether the GPU is AMD's."""
        return self.gpu is not None and self.gpu.vendor == "amd"

    @property
    def major(self) -> int | None:
        """Major compute capability; None where there is none."""
        capability = None if self.gpu is None else self.gpu.compute_capability
        return None if capability is None else capability[0]

    @property
    def of_triton(self) -> bool:
        """Whether they are Triton's for gpt-oss."""
        return self.family == TRITON_ACTIVATION and self.method != UNROUNDED and self.version >= TRITON_BUNDLED


def multiples(stored: Storage, kernels: Kernels) -> Multiples:
    """Multiples of the kernels that vLLM picks for experts so stored.

    In mxfp4, on Hopper Triton's kernels for gpt-oss, where they come with the release, and CUTLASS's for others; else
    Marlin's, or TensorRT-LLM's on data center Blackwell; compressed-tensors' own path rounds nothing. In 16 bit,
    TensorRT-LLM's there, which has SiLU and squared ReLU alone.

    Source: vLLM 0.10.1 to 0.33 quantization/mxfp4.py get_mxfp4_backend, fused_moe/oracle/mxfp4.py
    mxfp4_round_up_hidden_size_and_intermediate_size; oracle/unquantized.py, experts/trtllm_bf16_moe.py.
    """
    major = kernels.major
    if stored.name == "mxfp4":
        if kernels.method == UNROUNDED:
            return Multiples(1)
        if kernels.amd:
            return Multiples(256, 256)
        if major in (None, HOPPER) and kernels.version >= TRITON_BUNDLED:
            return Multiples(64) if kernels.of_triton else Multiples(128, 128)
        return Multiples(256 if major == BLACKWELL and kernels.version < NARROW_TILES else 128, 256)
    return Multiples(128 if stored in (BF16, FP16) and major == BLACKWELL and kernels.common else 1)


def swizzled(weight: Weight, shard: tuple[int, ...], kernels: Kernels) -> Storage | None:
    """The format of a share of an expert once Triton's kernels have it in their order; None where others run it.

    Values and scales are rounded up to whole tiles, biases kept in 32 bit. Until 0.25 the checkpoint's scales stay beside
    those. gate and up are one matrix there, so each takes half of a tile.

    Source: vLLM fused_moe/oracle/mxfp4.py convert_to_mxfp4_moe_kernel_format, quantization/utils/mxfp4_utils.py
    _swizzle_mxfp4; a start of 0.19 on an H100 printed 13.64 GiB for gpt-oss-20b, 12.85 of them the checkpoint's.
    """
    if not (weight.routed and kernels.of_triton and kernels.major == HOPPER):
        return None
    if not weight.linear:
        return FP32 if weight.stored in (BF16, FP16) else None
    if weight.stored.name != "mxfp4":
        return None
    stored, (outputs, inputs) = weight.stored, matrix(shard)
    halves = 2 if weight.split == 0 else 1
    tiled = TILED[0] <= kernels.version < TILED[1]
    tile_outputs, tile_inputs = (TILE_OUTPUTS // halves, TILE_INPUTS) if tiled else (1, 1)
    values = aligned(outputs, tile_outputs) * aligned(inputs, tile_inputs) * stored.bits
    groups = -(-inputs // stored.group)
    scales = aligned(outputs, SCALE_OUTPUTS // halves) * aligned(groups, SCALE_GROUPS) * stored.group_bits
    kept = outputs * groups * stored.group_bits
    more = values - outputs * inputs * stored.bits + scales - kept + (kept if kernels.version < SCALES_FREED else 0)
    return replace(stored, tensor_bits=stored.tensor_bits + more)
