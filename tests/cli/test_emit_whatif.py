"""What is emitted loads what was planned: weights, adapters' room and drafts are the checkpoint's and the release's own."""

from __future__ import annotations

import json

import pytest
from cli.running import run

FIT = ("fit", "llama-3.1-8b", "--gpu", "h100", "--ctx", "8k")


@pytest.mark.parametrize("whatif", [("--weight-dtype", "int4"), ("--weights", "5GB")])
def test_weights_that_no_checkpoint_has_are_not_emitted(whatif):
    assert run(*FIT, *whatif).code == 0
    refused = run(*FIT, *whatif, "--emit", "vllm")
    assert refused.code == 2
    assert "aren't those of the checkpoint" in refused.err


def test_adapters_take_the_rank_that_is_allocated():
    """vLLM 0.33 config/lora.py: ranks 1, 8, 16, 32, 64 ...; 48 is allocated as 64."""

    def adapters(rank: str) -> int:
        budget = json.loads(run(*FIT, "--max-loras", "2", "--max-lora-rank", rank, "--json").out)
        return next(extra["bytes"] for extra in budget["extras"] if extra["name"] == "adapters")

    assert adapters("48") == adapters("64") > adapters("32")


def test_a_bundled_draft_is_served_by_its_repository():
    line = run(*FIT, "--draft", "llama-3.2-1b", "--emit", "vllm").out
    assert '"model": "meta-llama/Llama-3.2-1B' in line


def test_a_draft_has_the_models_vocabulary():
    refused = run(*FIT, "--draft", "gemma-3-1b")
    assert refused.code == 2
    assert "262,144" in refused.err
    assert "128,256" in refused.err


def test_vocabularies_are_dealt_equally(tmp_path):
    """Qwen1.5-4B's 151,936 rows are a multiple of 64, and not of 5. vLLM 0.33: `151936 is not divisible by 5`."""
    config = json.dumps({
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 2560, "intermediate_size": 6880,
        "num_hidden_layers": 4, "num_attention_heads": 20, "num_key_value_heads": 20, "vocab_size": 151936,
        "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
    })  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(config)
    refused = run("fit", str(file), "--gpu", "h100", "--tp", "5", "--ctx", "8k", "--engine", "vllm")
    assert refused.code == 2
    assert "151936 is not divisible by 5" in refused.err
