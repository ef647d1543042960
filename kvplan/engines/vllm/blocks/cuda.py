"""Backends on NVIDIA's GPUs, in the order that vLLM tries them in.

Source: vLLM 0.33 platforms/cuda.py, v1/attention/backends.
"""

from __future__ import annotations

from kvplan.engines.vllm.blocks.backend import EITHER_FP8, FP4, FP8, PACKED, TURBO, WHOLE, Backend, Platform
from kvplan.engines.vllm.blocks.cells import PER_HEAD
from kvplan.engines.vllm.blocks.triton import TRITON_LATENT

_PAGES, _LARGE_PAGES = (16, 32, 64), (16, 32, 64, 128, 256, 512, 1024)
_FLASHINFER_DIMS = (64, 128, 256, 512)

_ATTENTION = (
    Backend(
        "TRITON_FLASHINFER",
        (64,),
        FP8,
        (10,),
        (256, 512),
        image_prefix=True,
        only_image_prefix=True,
        dcp=False,
        exact=True,
    ),
    Backend("FLASHINFER", _LARGE_PAGES, EITHER_FP8 | FP4, (10,), _FLASHINFER_DIMS, exact=True, grouped=True),
    Backend("FLASHINFER", _PAGES, EITHER_FP8 | FP4, (10,), _FLASHINFER_DIMS, exact=True),
    Backend("FLASH_ATTN", (64,), frozenset({"fp8"}), (9,), (512,), image_prefix=True, exact=True),
    Backend("FLASH_ATTN", (16,), FP8, (9,), largest_dim=512, image_prefix=True, step=8),
    Backend("FLASH_ATTN", (16,), WHOLE, (8, 10, 11, 12), largest_dim=256, step=8),
    Backend("FLASHINFER", _PAGES, EITHER_FP8, (8,), (64, 128, 256), exact=True, bare=True),
    Backend("FLASHINFER", _PAGES, EITHER_FP8, (9, 12), _FLASHINFER_DIMS, exact=True, bare=True),
    Backend(
        "FLASHINFER",
        _PAGES,
        frozenset({"nvfp4"}),
        (8, 9, 12),
        (128, 256, 512),
        dcp=False,
        exact=True,
        even=True,
        since=(0, 32, 0),
    ),
    Backend("TRITON_ATTN", (16,), EITHER_FP8 | PER_HEAD, image_prefix=True, fp8_from=(8, 9), least_dim=32),
    Backend("FLEX_ATTENTION", (16,), WHOLE, image_prefix=True),
    Backend("TURBOQUANT", (16, 32, 64, 128), TURBO, plain=True, even=True),
)

_LATENT_DIMS = (320, 512, 576)
_LATENT_PARTS = (64, 128, 192)

_LATENT = (
    Backend("FLASHINFER_MLA", (32, 64), WHOLE, (10,), _LATENT_DIMS, nope_dims=_LATENT_PARTS),
    Backend("FLASHINFER_MLA", (32, 64), FP8, (10,), _LATENT_DIMS, nope_dims=_LATENT_PARTS, since=(0, 11, 0)),
    Backend("CUTLASS_MLA", (128,), WHOLE, (10,), _LATENT_DIMS),
    Backend("CUTLASS_MLA", (128,), FP8, (10,), _LATENT_DIMS, since=(0, 10, 2)),
    Backend("FLASH_ATTN_MLA", (16,), WHOLE, (9,), _LATENT_DIMS),
    Backend("FLASHMLA", (64,), FP8, (9,), _LATENT_DIMS, since=(0, 10, 2)),
    *TRITON_LATENT,
)
"""Source: v1/attention/backends/mla of 0.9 to 0.33, which raise NotImplementedError or list formats."""

_SPARSE_LATENT = (
    Backend("FLASH_ATTN_MLA_SPARSE", (64,), WHOLE, (9,), dcp=False),
    Backend("FLASHMLA_SPARSE", (64,), FP8 | PACKED, (9,), (512, 576), dcp_formats=PACKED | {"fp8"}),
    Backend("FLASHINFER_MLA_SPARSE", (32,), frozenset({"fp8"}), (10,), (512, 576), since=(0, 19, 0)),
    Backend("FLASHINFER_MLA_SPARSE", (32,), frozenset({"fp8"}), (10,), (512, 576), since=(0, 18, 0), most_heads=16),
    Backend("FLASHMLA_SPARSE", (64,), FP8 | PACKED, (10,), (512, 576), dcp_formats=PACKED | {"fp8"}),
    Backend("FLASHINFER_MLA_SPARSE", (32,), WHOLE, (10,), (512, 576)),
    Backend("FLASHINFER_MLA_SPARSE_SM120", (64,), FP8 | {"fp8_ds_mla"}, (12,)),
)
"""Source: _get_backend_priorities of 0.12 to 0.33, and what these backends list as formats."""

_UNEVEN = (
    Backend("FLASH_ATTN_DIFFKV", (16,), FP8 | PER_HEAD, (9,), image_prefix=True),
    Backend("FLASH_ATTN_DIFFKV", (16,), WHOLE, (10,), image_prefix=True),
    Backend("TRITON_ATTN_DIFFKV", (16,), WHOLE, (7, 8, 11, 12), image_prefix=True),
    Backend("TRITON_ATTN_DIFFKV", (16,), FP8, (7, 8, 11, 12), image_prefix=True, fp8_from=(8, 9), since=(0, 32, 0)),
)
"""Keys wider than values. Source: models/mimo_v2.py, v1/attention/backends/{flash,triton}_attn_diffkv.py."""

_INDEXER = (Backend("DEEPSEEK_V32_INDEXER", (64,), frozenset({"index"})),)
_BLOCK_SPARSE = (Backend("MINIMAX_M3_SPARSE", (128,), FP8),)
_COMPRESSED = (Backend("DEEPSEEK_V4", (256,), frozenset({"fp8", "fp8_ds_mla", "fp8_per_token_head"})),)

CUDA = Platform(
    "CUDA",
    {
        "attention": _ATTENTION,
        "uneven attention": _UNEVEN,
        "latent": _LATENT,
        "sparse latent": _SPARSE_LATENT,
        "indexer": _INDEXER,
        "block sparse": _BLOCK_SPARSE,
        "compressed": _COMPRESSED,
    },
)
