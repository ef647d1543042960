"""Which model types and classes keep latents in vLLM, and which the heads that latents are expanded to.

Source: is_deepseek_mla in config.py of vLLM 0.8 to 0.10, config/model.py of 0.11 to 0.14, and since then
transformers_utils/model_arch_config_convertor.py; models/deepseek_v2.py, `elif model_config.use_mla`, and its like.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.arch.layers import Latent
from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.architectures import named
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import Version

EXPANDED = ("MiniCPM3ForCausalLM",)
"""Classes that cache whole heads whatever the type. Source: models/minicpm3.py."""

CHOOSING = (
    "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "MistralLarge3ForCausalLM", "AXK1ForCausalLM", "Glm4MoeLiteForCausalLM",
)  # fmt: skip
"""Classes that keep latents for the types below, and for others whole heads, keys and values as wide as keys."""

TYPES: Mapping[str, str] = {
    "AXK1": "0.17.0-0.25.1",
    "axk1": "0.26.0",
    "deepseek_v2": "0.8.0",
    "deepseek_v3": "0.8.0",
    "deepseek_v32": "0.11.0",
    "glm4_moe_lite": "0.15.0",
    "glm_moe_dsa": "0.16.0",
    "kimi_k2": "0.10.0",
}
"""By type, the releases that take it for one with latents, of those that such a class is given. Those of 0.8.0 are older."""

BUILDERS = frozenset((
    *EXPANDED, *CHOOSING,
    "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM", "DeepseekV32ForCausalLM", "DeepseekV3BidirectionalModel",
    "DeepseekVLV2ForCausalLM", "DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM", "Dots3NoteForCausalLM",
    "EagleMistralLarge3ForCausalLM", "Glm5NextForCausalLM", "Glm5NextForConditionalGeneration", "GlmMoeDsaForCausalLM",
    "HYV4ForCausalLM", "KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration", "KimiLinearForCausalLM",
    "KimiVLForConditionalGeneration", "LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM", "PanguUltraMoEForCausalLM",
    "SarvamMLAForCausalLM", "UnlimitedOCRForCausalLM",
))  # fmt: skip
"""Classes that build latents at all, in any release."""

BY_PART = frozenset((
    "InternVLChatModel", "LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration", "LlavaOnevisionForConditionalGeneration",
    "Mistral3ForConditionalGeneration", "PixtralForConditionalGeneration",
))  # fmt: skip
"""Classes of wholes that build their language model as the class that this part names, or else as its type's.

Source: init_vllm_registered_model(hf_config=config.text_config) of models/mistral3.py and its like."""


def expands(model: Model, release: Version) -> bool:
    """Whether the class caches the heads that latents are expanded to."""
    if not model.has(Latent):
        return False
    return named(model, EXPANDED) or (named(model, CHOOSING) and not holds(TYPES.get(model.family, ""), release))
