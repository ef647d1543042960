"""The first ChatGLM, which vLLM's class for its successors can't build.

Source: vLLM 0.33 models/chatglm.py, which reads config.original_rope; classes of earlier releases read as much that its
config doesn't have.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.traits import FIRST_CHATGLM
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed


def check(model: Model, rules: Rules) -> None:
    """Nothing, if it isn't the first ChatGLM.

    Raises: NotServed.
    """
    if FIRST_CHATGLM in model.traits:
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
            cause="'ChatGLMConfig' object has no attribute 'original_rope': it is the first ChatGLM, and vLLM builds the later ones",
            hint="ChatGLM2-6B or later, or --engine ideal",
        )
