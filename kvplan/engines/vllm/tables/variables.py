"""Variables of the environment that a start depends on."""

LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
"""Without it vLLM refuses a longer max_model_len than it derives. Source: vLLM 0.33 envs.py; config/model.py _get_and_verify_max_len."""
