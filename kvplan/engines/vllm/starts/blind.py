"""Classes for text alone that are given the config of a model that sees, and say so instead of starting.

Source: vLLM 0.8.0 to 0.33 models/chatglm.py ChatGLMForCausalLM, 0.8.0 to 0.23 models/qwen.py QWenLMHeadModel.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.traits import SEES
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.taken import taken
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed

SEEING = {
    "ChatGLMModel": ("vision_config", "GLM4VForCausalLM"),
    "ChatGLMForConditionalGeneration": ("vision_config", "GLM4VForCausalLM"),
    "QWenLMHeadModel": ("visual", "QwenVLForConditionalGeneration"),
}
"""By class, the field of the whole config that it refuses, and the class that sees."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if the class that is taken reads what the config has.

    Raises: NotServed.
    """
    name = taken(model, rules.version)
    field, seeing = SEEING.get(name or "", ("", ""))
    if field and f"{SEES}={field}" in model.traits:
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
            cause=f"its config has {field}, and names {name}, the text-only version of this model",
            hint=f'"architectures": ["{seeing}"] in its config.json',
        )
