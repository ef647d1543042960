"""Tables of rotary positions: as many rows as positions, whatever name the scaling goes by."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Model, Origin, Rope
from kvplan.arch.traits import TWO_ROPE_TYPES
from kvplan.families import read

QWEN2 = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 256,
    "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000,
    "max_position_embeddings": 32768,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
DEFAULT = {"rope_type": "default", "rope_theta": 1e6}


def model(**fields: Any) -> Model:
    return read({**QWEN2, **fields}, Origin("test", "test"))


def rows(found: Model) -> list[int]:
    assert found.weights is not None
    return [table.shape[0] for table in found.weights.tables]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (YARN, None, 131_072),  # 4 x 32,768
        (None, YARN, 131_072),
        (YARN, DEFAULT, 131_072),
        (DEFAULT, YARN, 32_768),
        ({}, YARN, 131_072),
        (None, {"full_attention": YARN, "sliding_attention": DEFAULT}, 131_072),
        (None, {"full_attention": YARN, "rope_type": "default"}, 131_072),
        (None, None, 32_768),
    ],
)
def test_the_old_name_of_a_scaling_wins(old: object, new: object, expected: int):
    """Source: transformers 5.23 modeling_rope_utils.py, `rope_scaling or self.rope_parameters`; vLLM 0.12 to 0.25 alike."""
    found = model(rope_scaling=old, rope_parameters=new)
    assert rows(found) == [expected]
    assert any(rope.kind == "yarn" for rope in found.context.ropes) == (expected > 32_768)


def test_a_language_model_is_not_told_of_the_scaling_beside_it():
    """vLLM 0.33 plans lengths and tables by the language model's own config, but looks at the types in all of them."""
    text = {**QWEN2, "model_type": "qwen2_5_vl_text"}
    whole = {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "text_config": text}
    found = read({**whole, "rope_scaling": YARN}, Origin("test", "test"))
    assert rows(found) == [32_768]
    assert found.context.ropes == ()
    twice = read({**whole, "rope_scaling": {**YARN, "type": "linear"}}, Origin("test", "test"))
    assert TWO_ROPE_TYPES in twice.traits


def test_scalings_of_types_of_layers_are_each_kept():
    found = model(rope_parameters={"full_attention": YARN, "sliding_attention": DEFAULT})
    assert [rope.kind for rope in found.context.ropes] == ["yarn", "default"]
    assert found.context.ropes[0] == Rope("yarn", 4.0, 32_768, tuple(sorted(YARN)))
