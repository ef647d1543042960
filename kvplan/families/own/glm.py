"""What only ChatGLM's configs say."""

from __future__ import annotations

from kvplan.arch.traits import FIRST_CHATGLM
from kvplan.families.fields import Fields


def glm_traits(fields: Fields) -> tuple[str, ...]:
    """Which of the models of type chatglm it is, as engines tell them apart."""
    return (FIRST_CHATGLM,) if fields.model_type == "chatglm" and not fields.has("original_rope") else ()
