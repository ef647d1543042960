"""How the tables of rotary positions of a model type come about where they aren't Llama's: one row a type.

Source: vLLM 0.33 model_executor/models, layers/rotary_embedding; clocks by default: Transformers 5.23 models/qwen3_vl and qwen3_5,
config.rope_parameters.get("mrope_section", ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RotaryRule:
    """What a type's class does otherwise than Llama's, which has one table of all positions in the model's own dtype."""

    rotates: bool = True
    """Whether there is a table at all: no for types that learn positions, bias scores by distance, or have none."""
    if_stated: bool = False
    """Whether it rotates only where position_embedding_type is "rope"."""
    own_word: bool = False
    """Whether model_max_length, where it is stated, is the number of rows whatever the size of the table is said to be."""
    mask: bool = False
    """Whether it keeps a mask of all positions by all positions in a table's place."""
    two_bases: bool = False
    """Whether window layers rotate with a base of their own, by the class's defaults."""
    precise: bool = False
    """Whether the table stays in fp32."""
    outruns: bool = False
    """Whether positions follow a video's clock and may outrun the tokens, where mrope_section is stated."""
    clocked: bool = False
    """Whether they follow it by the class's default, and never outrun the tokens."""


LLAMA = RotaryRule()

RULES: Mapping[str, RotaryRule] = {
    **dict.fromkeys(
        (
            "gpt2", "gpt-sw3", "gpt_neo", "openai-gpt", "opt", "bloom", "mpt", "t5", "mt5", "bart", "mbart", "whisper",
            "jamba", "nemotron_h", "mamba", "mamba2", "falcon_mamba", "kimi_linear", "biogpt", "xglm",
        ),
        RotaryRule(rotates=False),
    ),
    "granitemoehybrid": RotaryRule(if_stated=True),
    **dict.fromkeys(("cohere", "cohere2", "cohere2_moe"), RotaryRule(own_word=True)),
    "gpt_bigcode": RotaryRule(mask=True),
    **dict.fromkeys(
        ("gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "modernbert-decoder"),
        RotaryRule(two_bases=True),
    ),
    **dict.fromkeys(("gpt_oss", "deepseek_v4"), RotaryRule(precise=True)),
    **dict.fromkeys(
        (
            "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text", "glm4v", "glm4v_text",
            "glm4v_moe_text", "qwen3_asr_text", "qwen3_omni_moe_text", "keye", "paddleocr_vl", "ernie4_5_vl_moe_text",
        ),
        RotaryRule(outruns=True),
    ),
    **dict.fromkeys(("qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_5_text", "qwen3_5_moe_text"), RotaryRule(clocked=True)),
}  # fmt: skip
"""Rows of the types that differ; all others are as Llama."""


def rule_of(model_type: str) -> RotaryRule:
    """The row of a type."""
    return RULES.get(model_type, LLAMA)
