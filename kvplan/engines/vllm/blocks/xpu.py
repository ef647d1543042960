"""Backends on Intel's GPUs, where vLLM asks for blocks of 64 tokens unless Triton's kernels run.

Tables that aren't here weren't read: latents with an indexer, compressed entries, attention in blocks, keys wider than values.

Source: vLLM 0.10 to 0.33 platforms/xpu.py get_attn_backend_cls, check_and_update_config; v1/attention/backends/flash_attn.py,
triton_flash_attn.py, mla/flashattn_mla.py.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.engines.vllm.blocks.backend import FP8, WHOLE, Backend, Platform
from kvplan.engines.vllm.tables.versions import Version

BY_BACKEND: Version = (0, 20, 0)
"""The first release whose backends pick the block; before it all models had blocks of 64 tokens, which those beside states of 0.18 and 0.19 mostly
don't divide by."""
WHOLE_BLOCKS: Version = (0, 32, 0)
"""The first release whose FlashAttention takes multiples of 64 tokens alone, and runs latents."""
BLOCK = 64

_FLASH = Backend(
    "FLASH_ATTN", (16,), WHOLE, largest_dim=256, image_prefix=True, dcp=False, step=8, preferred=BLOCK, until=WHOLE_BLOCKS
)  # fmt: skip
_TRITON_LATENT = Backend("TRITON_MLA", (16,), WHOLE, dcp=False, since=(0, 16, 0))

XPU = Platform(
    "XPU",
    {
        "attention": (
            Backend("TRITON_FLASH_ATTN", (BLOCK,), FP8, dims=(256, 512), image_prefix=True, only_image_prefix=True,
                    dcp=False, since=(0, 33, 0)),
            Backend("TRITON_ATTN", (16,), FP8, image_prefix=True, only_image_prefix=True, dcp=False, least_dim=32, since=(0, 25, 0)),
            _FLASH,
            replace(_FLASH, formats=FP8, since=(0, 17, 0)),
            Backend("FLASH_ATTN", (BLOCK,), FP8, largest_dim=256, dcp=False, step=8, since=WHOLE_BLOCKS),
            Backend("FLASH_ATTN", (BLOCK,), FP8, largest_dim=512, dcp=False, step=8, since=(0, 33, 0)),
        ),
        "latent": (
            Backend("FLASH_ATTN_MLA", (BLOCK,), WHOLE, dims=(576,), dcp=False, since=WHOLE_BLOCKS),
            replace(_TRITON_LATENT, preferred=BLOCK, until=BY_BACKEND),
            _TRITON_LATENT,
            replace(_TRITON_LATENT, formats=FP8, since=BY_BACKEND),
        ),
    },
)  # fmt: skip
