"""Whose word counts on the head that is the embedding: parameters that vLLM 0.33 constructs, asked of it on the meta device."""

from __future__ import annotations

from typing import Any

import pytest
from weights.conftest import described

from kvplan.arch.weights import UNSURE_HEAD, Weights
from kvplan.engines.vllm.layout.views import view_of
from kvplan.sources.gpus import load_gpu

TEXT: dict[str, Any] = {
    "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 10_000,
    "intermediate_size": 1024, "max_position_embeddings": 4096,
}  # fmt: skip
EMBEDDING = 10_000 * 512
TEXT_TYPES = {"idefics3": "llama", "exaone4_5": "exaone4_5_text", "mistral3": "ministral3"}


def weights(whole: str, outer: bool | None, inner: bool | None) -> Weights:
    """Of a whole whose config, and whose text's config, say so of the head; None says nothing."""
    said: dict[str, Any] = {} if outer is None else {"tie_word_embeddings": outer}
    text = {**TEXT, "model_type": TEXT_TYPES.get(whole, f"{whole}_text")}
    text |= {} if inner is None else {"tie_word_embeddings": inner}
    found = described({"model_type": whole, "text_config": text, "dtype": "bfloat16", **said}).weights
    assert found is not None
    return found


@pytest.mark.parametrize("whole", ["qwen3_vl", "idefics3", "llama4", "exaone4_5"])
@pytest.mark.parametrize(
    ("outer", "inner", "tied"),
    [
        (True, True, True), (True, False, True), (True, None, True),
        (False, True, False), (False, None, False), (None, True, False), (None, None, False),
    ],
)  # fmt: skip
def test_the_whole_says_it(whole, outer, inner, tied):
    """Qwen3-VL-2B: 4,322,697,664 bytes with a tied head, else 4,945,027,520; none of the four classes ties by itself."""
    apart = weights(whole, False, False)
    assert apart.total - weights(whole, outer, inner).total == (EMBEDDING if tied else 0)


@pytest.mark.parametrize("whole", ["qwen3_5", "qwen3_5_moe"])
@pytest.mark.parametrize(
    ("outer", "inner", "tied"),
    [
        (True, True, True),
        (True, False, False),
        (True, None, False),
        (False, True, True),
        (None, True, True),
        (None, None, False),
    ],
)
def test_the_text_says_it(whole, outer, inner, tied):
    """Qwen3.5-35B-A3B: 69,231,391,488 bytes with a tied head, else 70,248,510,208: models/qwen3_5.py is built of hf_text_config."""
    apart = weights(whole, False, False)
    assert apart.total - weights(whole, outer, inner).total == (EMBEDDING if tied else 0)


def test_a_class_s_yes_is_in_doubt_where_the_text_says_no():
    """Mistral3Config ties by itself: Devstral-Small-2's files decide."""
    assert UNSURE_HEAD in weights("mistral3", None, False).missing
    assert UNSURE_HEAD not in weights("mistral3", None, True).missing
    assert UNSURE_HEAD not in weights("mistral3", True, False).missing


@pytest.mark.parametrize("kind", ["glm4v_moe_text", "mimo_v2_flash", "step3p5"])
def test_classes_that_never_tie(kind):
    """GLM-4.5V: 215,503,672,032 bytes whatever its config says: models/glm4_moe.py doesn't look."""
    found = described({**TEXT, "model_type": kind, "tie_word_embeddings": True, "dtype": "bfloat16"})
    assert not view_of(found, load_gpu("h100")).ties
