"""What vLLM leaves to the Transformers library: which of its classes, since when, and of which major version.

Source: vLLM models/registry.py of 0.6.3 to 0.33, entries of the module "transformers"; Requires-Dist of its wheels.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.registered import CLASSES
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import Version

FIFTH: Version = (0, 24, 0)
"""The first release that requires Transformers 5 (5.5.3); those of 0.20 to 0.23 take 4.56 too."""

REGISTERED: dict[str, str] = {
    **dict.fromkeys(("ArceeForCausalLM", "CwmForCausalLM", "GPTNeoXForCausalLM", "GlmForCausalLM"), "0.32.0"),
    **dict.fromkeys(("Jais2ForCausalLM", "MellumForCausalLM", "PhiForCausalLM", "SeedOssForCausalLM"), "0.32.0"),
    **dict.fromkeys(("FlexOlmoForCausalLM", "HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM"), "0.29.0"),
    **dict.fromkeys(("HunYuanVLForConditionalGeneration", "Olmo3ForCausalLM"), "0.29.0"),
    **dict.fromkeys(("VaultGemmaForCausalLM", "VibeVoiceAsrForConditionalGeneration"), "0.27.0"),
    **dict.fromkeys(("OlmoForCausalLM", "Olmo2ForCausalLM"), "0.26.0"),
    **dict.fromkeys(("GPTBigCodeForCausalLM", "Starcoder2ForCausalLM"), "0.25.0"),
    **dict.fromkeys(("Emu3ForConditionalGeneration", "SmolLM3ForCausalLM"), "0.10.1"),
    "Kolibri1ForCausalLM": "0.33.0",
    "NanbeigeForCausalLM": "0.30.0",
}
"""Classes that vLLM registers and runs by the library's code, and since when; before, by its own."""


def by_library(model: Model, release: Version) -> bool:
    """Whether the library's code runs the model, and not a class of vLLM's own."""
    names = [name for name in classes(model) if holds(CLASSES.get(name, ""), release)]
    return not names or holds(REGISTERED.get(names[0], ""), release)
