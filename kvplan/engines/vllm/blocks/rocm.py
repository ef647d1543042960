"""Backends on AMD's GPUs, in the order that vLLM tries them in.

AITER is taken to be installed, as in vLLM's own images for ROCm: then some of its kernels stand behind ROCM_ATTN without being asked
for by VLLM_ROCM_USE_AITER.

Source: vLLM 0.10 to 0.33 platforms/rocm.py get_attn_backend_cls, _get_backend_priorities; v1/attention/backends/rocm_attn.py,
rocm_aiter_unified_attn.py, triton_attn.py, triton_attn_diffkv.py, mla/rocm_aiter_mla.py, mla/rocm_aiter_mla_sparse.py, mla/indexer.py;
models/config.py Gemma4Config; models/mimo_v2.py, models/deepseek_v4/sparse_mla.py, models/minimax_m3/common/sparse_attention.py.
Before 0.19 Triton's kernels ran everything but latents, in blocks of 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvplan.engines.vllm.blocks.backend import EITHER_FP8, FP8, TURBO, WHOLE, Backend, Platform
from kvplan.engines.vllm.blocks.cells import PER_HEAD
from kvplan.engines.vllm.blocks.triton import TRITON_LATENT
from kvplan.engines.vllm.tables.versions import NEVER, Version

ORDERED: Version = (0, 19, 0)
"""The first release that tries ROCM_ATTN first; before it Triton's kernels were the default."""
CONNECTED: Version = (0, 23, 0)
"""The first release that leaves it out where a KV connector moves the cache."""
TYPES_LISTED: Version = (0, 25, 0)
"""The first release in which AITER's kernels for attention list the cache formats that they take, until 0.26 without fp8_e5m2."""
CHECKED: Version = (0, 18, 0)
"""The first release that asks each backend for latents what it takes. Before it blocks of a token chose AITER's kernels, and sparse
latents had to have them."""
SPARSE_FP8: Version = (0, 21, 0)
"""The first release whose kernels for sparse latents take fp8."""

_ALWAYS = Backend(
    "ROCM_ATTN", (16,), EITHER_FP8, dims=(32, 64, 80, 96, 128, 160, 192, 224, 256), dcp=False, bare=True, one_dim=True,
    own_layout=True, since=ORDERED, until=CONNECTED,
)  # fmt: skip
_PAGED = (_ALWAYS, replace(_ALWAYS, since=CONNECTED, until=NEVER, unconnected=True))
_TRITON = (
    Backend("TRITON_ATTN", (16,), EITHER_FP8 | PER_HEAD, image_prefix=True, dcp=False, least_dim=32),
    Backend("TURBOQUANT", (16, 32, 64, 128), TURBO, dcp=False, plain=True, even=True),
)


def _unified(formats: frozenset[str], since: Version, until: Version = NEVER, *, asked: bool = False) -> Backend:
    return Backend(
        "ROCM_AITER_UNIFIED_ATTN", (16,), formats, dcp=False, least_dim=32, preferred=64, one_dim=True, own_layout=True,
        aiter=asked, since=since, until=until,
    )  # fmt: skip


_AITER = (
    Backend(
        "ROCM_AITER_FA", (16,), EITHER_FP8, dims=(64, 128, 256), dcp=False, one_dim=True, aiter=True, since=ORDERED
    ),
    _unified(EITHER_FP8, ORDERED, TYPES_LISTED),
    _unified(FP8, TYPES_LISTED, (0, 26, 0)),
    _unified(EITHER_FP8, (0, 26, 0)),
)

_BACKENDS = {
    "attention": (*_PAGED, *_TRITON),
    "uneven attention": (
        Backend("TRITON_ATTN_DIFFKV", (16,), WHOLE, image_prefix=True, dcp=False, since=(0, 24, 0)),
        Backend("TRITON_ATTN_DIFFKV", (16,), FP8, image_prefix=True, dcp=False, since=(0, 32, 0)),
    ),
    "latent": TRITON_LATENT,
    "sparse latent": (),
    "indexer": (Backend("DEEPSEEK_V32_INDEXER", (1, 16), frozenset({"index"})),),
    "block sparse": (Backend("MINIMAX_M3_SPARSE", (128,), FP8),),
    "compressed": (Backend("DEEPSEEK_V4", (256,), frozenset({"fp8", "fp8_ds_mla"}), since=(0, 21, 0)),),
}

ROCM = Platform("ROCm", _BACKENDS)
"""On GPUs that AITER has no kernels for."""

AITERS = Platform(
    "ROCm",
    {
        **_BACKENDS,
        "attention": (*_PAGED, *_AITER, *_TRITON),
        "latent": (
            Backend("ROCM_AITER_MLA", (1,), EITHER_FP8, aiter=True, since=CHECKED),
            *TRITON_LATENT,
            Backend("ROCM_AITER_MLA", (1,), WHOLE, by_request=True, until=CHECKED),
        ),
        "sparse latent": (
            Backend("ROCM_AITER_MLA_SPARSE", (1,), WHOLE, dcp=False, by_request=True, since=(0, 12, 0), until=CHECKED),
            Backend("ROCM_AITER_MLA_SPARSE", (1, 16), WHOLE, dcp=False, since=CHECKED),
            Backend("ROCM_AITER_MLA_SPARSE", (1, 16), FP8, dcp=False, since=SPARSE_FP8),
        ),
    },
)
"""On those that it has some for: CDNA 3 and later. Source: vLLM 0.33 _aiter_ops.py is_aiter_found_and_supported."""

RDNA_4 = Platform("ROCm", {**_BACKENDS, "attention": (_unified(EITHER_FP8, (0, 28, 0), asked=True), *_PAGED, *_TRITON)})
"""On those that its kernels in Triton run on where they are asked for. Source: vLLM 0.28 and 0.33 _aiter_ops.py is_rdna_aiter_enabled."""

OF_ARCHITECTURES: Mapping[str, Platform] = {"CDNA3": AITERS, "CDNA4": AITERS, "RDNA4": RDNA_4}
"""By how the names of architectures begin; ROCM on others."""
