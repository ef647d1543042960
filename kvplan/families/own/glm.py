"""What only ChatGLM's configs say."""

from __future__ import annotations

from kvplan.families.fields import Fields

FIRST_GLM = "first_chatglm"
"""The first ChatGLM, whose code is another one's: its config says nothing of original_rope, as all later ones do."""


def glm_traits(fields: Fields) -> tuple[str, ...]:
    """Which of the models of type chatglm it is, as engines tell them apart."""
    return (FIRST_GLM,) if fields.model_type == "chatglm" and not fields.has("original_rope") else ()
