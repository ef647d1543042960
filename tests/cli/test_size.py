"""What `kvplan size` counts and says of it."""

from __future__ import annotations

import pytest
from cli.running import run, run_json


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("deepseek-v3.2", 61),  # each with a latent and index keys
        ("falcon-h1-7b", 44),  # each with attention and a Mamba-2 state
        ("whisper-tiny", 4),  # each with self-attention and the encoder's output
        ("gemma-3n-e4b", 20),  # 35, of which 15 read an earlier layer's cache
    ],
)
def test_a_layer_that_keeps_several_things_is_one_layer(name: str, layers: int):
    assert run_json("size", name, "--ctx", "400")["cache"]["caching_layers"] == layers
    assert f"{layers} caching layers" in run("size", name, "--ctx", "400").out


def test_the_same_shape_is_compared_at_the_length_that_is_said():
    """2 x 24 layers x 64 heads x 64 x 2 B = 393,216 B a token; the longest length asked for may come first."""
    found = {
        each["attention"]: each["bytes"] for each in run_json("size", "gpt-oss-20b", "--ctx", "1k,100")["same_shape"]
    }
    # half the layers have a window of 128
    assert found["mha"] == 393_216 // 2 * (1024 + 128)
    assert "under another attention, at 1,024 tokens" in run("size", "gpt-oss-20b", "--ctx", "1k,100").out


def test_as_many_gpus_as_are_named_share_the_model():
    """As in a plan: eight GPUs are eight tensor ranks unless other sizes are given."""
    whole = run_json("size", "llama-3.1-8b", "--gpu", "h100", "--ctx", "8k")["sequences"][0]
    eighth = run_json("size", "llama-3.1-8b", "--gpu", "h100x8", "--ctx", "8k")
    assert eighth["parallel"]["tp"] == 8
    assert eighth["sequences"][0]["bytes_per_gpu"] * 8 == whole["bytes_per_gpu"] == 2**30
    assert "is 2 GPUs, not 8" in run("size", "llama-3.1-8b", "--gpu", "h100x8", "--tp", "2").err
