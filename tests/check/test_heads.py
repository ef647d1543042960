"""EAGLE heads are heads because their method says so, whatever class their config names.

Source: vLLM 0.11, 0.12 and 0.33 config/speculative.py, transformers_utils/configs/eagle.py EAGLEConfig.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check.checking import check

HEAD = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 2048,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 1, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 128256, "hidden_act": "silu",
}  # fmt: skip


def started(folder: Path, release: str, name: str, head: dict[str, object], **said: object):
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(head))
    speculation = json.dumps({"model": f"./{name}", "num_speculative_tokens": 4, **said})
    serves = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 32768"
    (folder / "run.sh").write_text(f"{serves} --speculative-config '{speculation}'\n")
    return check("run.sh", "--gpu", "h100", "--engine", f"vllm@{release}")


@pytest.mark.parametrize("release", ["0.11.0", "0.12.0", "0.33.0"])
@pytest.mark.parametrize(("name", "said"), [("h", {"method": "eagle"}), ("h", {"method": "eagle3"}), ("EAGLE-h", {})])
def test_a_head_by_its_method_or_its_name(folder: Path, release: str, name: str, said: dict[str, str]):
    assert started(folder, release, name, HEAD, **said).code == 0


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "EagleLlamaForCausalLM"])
def test_a_model_of_its_own_is_none(folder: Path, architecture: str):
    found = started(folder, "0.11.0", "h", {**HEAD, "architectures": [architecture]}, method="draft_model")
    assert (found.code, "lets no other model draft" in " ".join(found.out.split())) == (1, True)


def test_a_model_of_its_own_lowers_the_length(folder: Path):
    found = started(folder, "0.33.0", "h", HEAD, method="draft_model")
    assert found.code != 0
    assert "lowers max_model_len to 2,048" in " ".join((found.out + found.err).split())


def test_a_head_of_a_class_that_no_release_has(folder: Path):
    found = started(
        folder, "0.33.0", "h", {**HEAD, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}, method="eagle"
    )
    assert "EagleQwen2ForCausalLM, which is to draft" in " ".join((found.out + found.err).split())
