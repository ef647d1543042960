"""Configs with latents, and classes that build none.

Source: vLLM 0.33 models/registry.py, which gives TeleChat3ForCausalLM the class of Llama; models/mistral3.py and config/vllm.py
with_hf_config, which ask the Transformers library for the class of a part that names none.
"""

from __future__ import annotations

from kvplan.arch.layers import Latent
from kvplan.arch.model import Model
from kvplan.arch.traits import DRAFTS_ALONE, PART_NAMELESS
from kvplan.engines.vllm.tables.interfaces import BY_LIBRARY
from kvplan.engines.vllm.tables.latents import BUILDERS, BY_PART, TYPES
from kvplan.engines.vllm.tables.registered import DRAFTS
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.taken import has, taken
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed

UNMAPPED = ("mistral4",)
"""Types of language models for which the library's table of generating classes has none, though the library has one.

Source: Transformers 5.19 and 5.23 MODEL_FOR_CAUSAL_LM_MAPPING_NAMES."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if the class that is taken builds what the config says.

    Raises: NotServed.
    """
    name = taken(model, rules.version)
    if name is None or name in BUILDERS or name in DRAFTS or DRAFTS_ALONE in model.traits or not model.has(Latent):
        return
    if has(name, BY_LIBRARY, rules.version) or (name in BY_PART and holds(TYPES.get(model.family, ""), rules.version)):
        return
    unnamed = PART_NAMELESS in model.traits and model.family in UNMAPPED
    raise NotServed(
        f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
        cause=(
            f"No model architectures are specified: its language model ({model.family}) is a part that names no class"
            if unnamed
            else f"its config has latents (kv_lora_rank), and {name} builds none"
        ),
        hint=(
            "its params.json, which vLLM reads first where consolidated*.safetensors stand beside it, or --engine ideal"
            if unnamed
            else "--engine ideal"
        ),
    )
