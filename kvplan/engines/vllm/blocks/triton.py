"""Backends written in Triton, which run on NVIDIA's GPUs and on AMD's.

Source: vLLM 0.8 to 0.33 v1/attention/backends/mla/triton_mla.py.
"""

from __future__ import annotations

from kvplan.engines.vllm.blocks.backend import FP8, WHOLE, Backend

TRITON_LATENT = (
    Backend("TRITON_MLA", (16,), WHOLE),
    Backend("TRITON_MLA", (16,), FP8, fp8_from=(8, 9), since=(0, 18, 0)),
)
"""Latents without an indexer."""
