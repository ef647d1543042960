"""Backends on AMD's GPUs, in the order that vLLM tries them in where VLLM_ROCM_USE_AITER isn't set.

AITER is taken to be installed, as in vLLM's own images for ROCm: then its kernels stand behind ROCM_ATTN without being asked for.

Source: vLLM 0.19 to 0.33 platforms/rocm.py _get_backend_priorities, v1/attention/backends/rocm_attn.py, rocm_aiter_unified_attn.py,
triton_attn.py, mla/triton_mla.py, mla/rocm_aiter_mla_sparse.py, mla/indexer.py; models/mimo_v2.py, models/deepseek_v4/sparse_mla.py,
models/minimax_m3/common/sparse_attention.py. Before 0.19 Triton's kernels ran everything but sparse latents, in blocks of 16.
"""

from __future__ import annotations

from kvplan.engines.vllm.blocks.backend import EITHER_FP8, FP8, TURBO, Backend, Platform
from kvplan.engines.vllm.blocks.cells import PER_HEAD
from kvplan.engines.vllm.tables.versions import Version

ORDERED: Version = (0, 19, 0)
"""The first release that tries ROCM_ATTN first; before it Triton's kernels were the default."""
SPARSE: Version = (0, 18, 0)
"""The first release whose kernels for sparse latents take other blocks than one of a token."""

_PAGED = Backend(
    "ROCM_ATTN", (16,), EITHER_FP8, dims=(32, 64, 80, 96, 128, 160, 192, 224, 256), dcp=False, bare=True, since=ORDERED
)
_AITER = Backend("ROCM_AITER_UNIFIED_ATTN", (16,), EITHER_FP8, dcp=False, since=ORDERED, least_dim=32, preferred=64)
_TRITON = (
    Backend("TRITON_ATTN", (16,), EITHER_FP8 | PER_HEAD, image_prefix=True, dcp=False, least_dim=32),
    Backend("TURBOQUANT", (16, 32, 64, 128), TURBO, dcp=False, plain=True, even=True),
)

_BACKENDS = {
    "attention": (_PAGED, *_TRITON),
    "uneven attention": (Backend("TRITON_ATTN_DIFFKV", (16,), FP8, image_prefix=True, dcp=False),),
    "latent": (Backend("TRITON_MLA", (16,), FP8),),
    "sparse latent": (),
    "indexer": (Backend("DEEPSEEK_V32_INDEXER", (1, 16), frozenset({"index"})),),
    "block sparse": (Backend("MINIMAX_M3_SPARSE", (128,), FP8),),
    "compressed": (Backend("DEEPSEEK_V4", (256,), frozenset({"fp8", "fp8_ds_mla"})),),
}

ROCM = Platform("ROCm", _BACKENDS)
"""On GPUs that AITER has no kernels for."""

AITERS = Platform(
    "ROCm",
    {
        **_BACKENDS,
        "attention": (_PAGED, _AITER, *_TRITON),
        "sparse latent": (Backend("ROCM_AITER_MLA_SPARSE", (1, 16), FP8, dcp=False, since=SPARSE),),
    },
)
"""On those that it has some for: CDNA 3 and later. Source: vLLM 0.33 _aiter_ops.py is_aiter_found_and_supported."""

AITERS_ARCHITECTURES = ("CDNA3", "CDNA4")
"""How the names of their architectures begin."""
