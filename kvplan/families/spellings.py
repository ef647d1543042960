"""What configs call the same thing: field names, in the order in which they are believed."""

from __future__ import annotations

SERVED_BLOCKS = ("quantization_config", "compression_config")
"""Names of the block that says how weights are quantized: the usual one, and that of older compressed-tensors.

No other counts for what a server does by it. Source: vLLM 0.33 transformers_utils/model_arch_config_convertor.py
_normalize_quantization_config.
"""

BLOCKS = (SERVED_BLOCKS[0], "quantization", *SERVED_BLOCKS[1:])
"""The same with MLX's, which says what the files hold; no server planned for reads it, so it decides nothing of theirs."""
