"""Variables of the environment that a start depends on."""

from __future__ import annotations

from kvplan.engines.vllm.tables.versions import Version

LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
"""Without it vLLM refuses a longer max_model_len than it derives. Source: vLLM 0.33 envs.py; config/model.py _get_and_verify_max_len."""

RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""Says which model runner serves, whatever the release would choose. Source: envs.py of 0.12 to 0.33; config/vllm.py use_v2_model_runner."""

CHOSEN: Version = (0, 22, 0)
"""The first release that chooses one by the model; in earlier ones the second is unfinished, and what it takes wasn't read."""

AITER = "VLLM_ROCM_USE_AITER"
"""Asks for AITER's kernels on AMD's GPUs. Source: envs.py of 0.8 to 0.33, platforms/rocm.py."""
