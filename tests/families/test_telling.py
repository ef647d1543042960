"""Names that tell of the cache, and names that only look so."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.arch.model import Origin
from kvplan.arch.traits import TEXT_FOR_WHOLE
from kvplan.errors import BadField, Unsupported
from kvplan.families import read

UNKNOWN = {
    "model_type": "nobody_knows",
    "hidden_size": 832,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "num_hidden_layers": 3,
}


def described(**fields: Any) -> object:
    return read({**UNKNOWN, **fields}, Origin("test", "test"))


def test_a_list_of_steps_is_no_list_of_epsilons():
    with pytest.raises(Unsupported, match="steps_of_layers"):
        described(steps_of_layers=[1, 2, 3])


@pytest.mark.parametrize("fields", [{"layer_sharing": True}, {"layer_sharing_repeats": 2}])
def test_layers_that_are_gone_through_again(fields):
    """Nandi keeps a slot for each repeat: num_hidden_layers x repeats virtual layers."""
    with pytest.raises(Unsupported, match=next(iter(fields))):
        described(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"layer_sharing": False}, {"layer_sharing_repeats": 1}, {"repmixer_kernel_size": 3}, {"eos_token_id": [1, 2, 3]},
        {"target_layer_ids": [3, 7, 9]}, {"init_std": [0.1, 0.2, 0.3]}, {"lr_multipliers": [1, 2, 3]},
    ],
)  # fmt: skip
def test_what_tells_nothing_of_the_cache(fields):
    assert described(**fields)


def test_a_null_that_means_no_default():
    """vLLM 0.33 iquest_loopcoder.py: getattr(config, "loop_window_size", 64) is None for a null, and windows nothing."""
    config = {
        "model_type": "iquestloopcoder",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_hidden_layers": 4,
        "loop_num": 2,
    }
    with pytest.raises(BadField, match="loop_window_size"):
        read({**config, "loop_window_size": None}, Origin("test", "test"))


def test_a_flat_config_of_the_class_s_own_type_is_whole():
    """GLM-4.1V's published config.json has its text model's fields beside vision_config: vLLM 0.33 plans 65,536 blocks in 40 GiB."""
    flat = {
        "model_type": "glm4v", "architectures": ["Glm4vForConditionalGeneration"], "hidden_size": 4096, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 2, "vision_config": {"depth": 24},
    }  # fmt: skip
    assert TEXT_FOR_WHOLE not in read(flat, Origin("test", "test")).traits
