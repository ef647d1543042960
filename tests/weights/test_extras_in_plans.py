"""LoRA adapters and drafts in a plan: weights and cache that they add, by hand."""

from __future__ import annotations

import json

import pytest
from cli.running import run, run_json

LLAMA_8B = ("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k")
SIDES = 2 * 8192 + 2 * 5120 + 3 * 18432
"""Inputs and outputs of the seven linear layers of a layer of Llama 3 8B, together."""


def extras(report: dict) -> dict[str, dict]:
    return {extra["name"]: extra for extra in report["extras"]}


ENDS = 2 * (128_256 + 4_096)
"""Inputs and outputs of the embedding and the head of Llama 3 8B, which vLLM's LlamaForCausalLM adapts too."""


@pytest.mark.parametrize(("engine", "ends"), [("ideal", 0), ("vllm", ENDS)])
def test_adapters_take_their_slots(engine: str, ends: int):
    plain = run_json(*LLAMA_8B, "--engine", engine)
    tuned = run_json(*LLAMA_8B, "--engine", engine, "--max-loras", "4", "--max-lora-rank", "64")
    added = 4 * 2 * 64 * (32 * SIDES + ends)
    assert plain["extras"] == []
    assert extras(tuned)["adapters"]["bytes"] == added
    assert tuned["per_gpu"]["weights_bytes"] - plain["per_gpu"]["weights_bytes"] == added
    assert plain["per_gpu"]["kv_bytes"] - tuned["per_gpu"]["kv_bytes"] >= added
    weights = tuned["explain"]["children"][0]["children"][1]
    assert [child["name"] for child in weights["children"]] == ["adapters"]


@pytest.mark.parametrize(
    ("engine", "sides"),
    [
        ("ideal", 32 * (8192 + 5120)), ("vllm", 32 * (8192 + 2 * 5120)), ("vllm@0.24.0", 32 * (8192 + 2 * 5120)),
        ("vllm@0.23.0", 32 * SIDES + ENDS),
    ],
)  # fmt: skip
def test_the_modules_named_are_adapted(engine, sides):
    """vLLM computes q, k and v as one, and gives them room together; before 0.24 its flag knows no parts of that one."""
    tuned = run_json(*LLAMA_8B, "--engine", engine, "--lora-targets", "q_proj,v_proj")  # one adapter of rank 16
    assert extras(tuned)["adapters"]["bytes"] == 2 * 16 * sides
    refused = run(*LLAMA_8B, "--lora-targets", "c_attn", "--no-config")
    assert refused.code == 2
    assert "q_proj" in refused.err


@pytest.mark.parametrize(("engine", "joined"), [("ideal", 0), ("vllm", 2 * (4096 + 512))])
def test_adapters_are_split_over_ranks(engine, joined):
    tuned = run_json(
        *LLAMA_8B, "--engine", engine, "--tp", "2", "--max-loras", "1", "--lora-targets", "q_proj,down_proj"
    )
    assert extras(tuned)["adapters"]["bytes"] == 2 * 32 * 16 * (4096 + 2048 + joined + 7168 + 4096)


@pytest.mark.parametrize(("version", "said"), [("0.33.0", "--lora-target-modules q_proj v_proj"), ("0.23.0", None)])
def test_the_command_names_the_modules_that_the_plan_has_room_for(version, said):
    asked = ("--engine", f"vllm@{version}", "--max-loras", "1", "--lora-targets", "q_proj,v_proj", "--emit", "vllm")
    printed = run(*LLAMA_8B, *asked).out
    assert ("--lora-target-modules" in printed) == (said is not None)
    assert said is None or said in printed


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_a_draft_model_adds_weights_and_cache(engine: str):
    plain = run_json("fit", "llama-3-70b", "--gpu", "h100x8", "--ctx", "8k", "--engine", engine)
    drafted = run_json(
        "fit", "llama-3-70b", "--gpu", "h100x8", "--ctx", "8k", "--engine", engine, "--draft", "llama-3.2-1b"
    )
    draft = extras(drafted)["draft"]
    split = (128_256 * 2048 + 16 * (2 * 2048 * 2048 + 2 * 512 * 2048 + 3 * 8192 * 2048)) // 8
    norms = 33 * 2048
    assert draft["bytes"] == 2 * (split + norms)
    assert draft["cache_bytes"] == 16 * 2 * 64 * 2 * 8192  # a KV head of 64 a rank, in 16 layers
    sequence = drafted["explain"]["children"][1]["value"] - plain["explain"]["children"][1]["value"]
    assert sequence == draft["cache_bytes"]
    assert drafted["per_gpu"]["weights_bytes"] - plain["per_gpu"]["weights_bytes"] == draft["bytes"]
    assert "meta-llama/Llama-3.2-1B" in draft["formula"]


def test_the_model_s_own_prediction_layers():
    asked = ("fit", "deepseek-v3", "--gpu", "h200x8", "--ctx", "8k", "--engine", "ideal")
    plain, drafted = run_json(*asked), run_json(*asked, "--speculative-tokens", "1")
    draft = extras(drafted)["draft"]
    assert draft["cache_bytes"] == 576 * 2 * 8192
    assert drafted["per_gpu"]["weights_bytes"] - plain["per_gpu"]["weights_bytes"] == draft["bytes"] > 10**9
    assert drafted["explain"]["children"][1]["value"] == 62 * 576 * 2 * 8192


def test_a_draft_sits_on_the_last_stage():
    asked = ("fit", "llama-3-70b", "--gpu", "h100x8", "--pp", "2", "--ctx", "8k", "--engine", "ideal")
    drafted = run_json(*asked, "--draft", "llama-3.2-1b")
    assert drafted["explain"]["children"][1]["name"] == "one sequence on the fullest GPU, stage 2 of 2"
    assert drafted["explain"]["children"][1]["value"] == (40 * 2 * 2 * 128 * 2 + 16 * 2 * 2 * 64 * 2) * 8192


def test_they_are_what_vllm_is_told():
    emitted = run(
        *LLAMA_8B,
        "--max-loras",
        "2",
        "--max-lora-rank",
        "20",
        "--draft",
        "llama-3.2-1b",
        "--emit",
        "vllm",
        "--no-config",
    ).out
    words = " ".join(emitted.split())
    assert "--enable-lora" in words
    assert "--max-loras 2" in words
    assert "--max-lora-rank 32" in words  # the next that vLLM knows
    assert json.dumps({"model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 3}) in words


def test_weights_given_by_hand_still_have_adapters_beside_them():
    tuned = run_json(*LLAMA_8B, "--weights", "16GB", "--max-loras", "1")
    assert tuned["per_gpu"]["weights_bytes"] == 16 * 10**9 + 2 * 16 * (32 * SIDES + ENDS)


def weights_of(document: dict) -> dict[str, str]:
    """What the node of weights says."""
    weights = next(node for node in document["explain"]["children"][0]["children"] if node["name"] == "weights")
    return dict(weights["inputs"])


def doubt(document: dict) -> int:
    said = weights_of(document)
    return int(said["high"]) - int(said["low"])


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_an_end_that_is_named_is_adapted_on_every_rank(engine):
    """One adapter of rank 16 of the head: 16 x (128,256 + 4,096) x 2 B, whole on each of two ranks."""
    tuned = run_json(*LLAMA_8B, "--engine", engine, "--tp", "2", "--lora-targets", "lm_head")
    assert extras(tuned)["adapters"]["bytes"] == 2 * 16 * (128_256 + 4_096)


@pytest.mark.parametrize(("model", "tp", "ends"), [("qwen3-0.6b", 2, 2 * (151_936 + 1_024)), ("qwen2.5-7b", 1, 0)])
def test_classes_say_which_ends_they_adapt(model, tp, ends):
    asked = ("fit", model, "--gpu", f"h100:{tp}", "--tp", str(tp), "--ctx", "1k", "--engine", "vllm")
    tuned = run_json(*asked, "--max-loras", "4", "--max-lora-rank", "64")
    ideal = run_json(*asked[:-1], "ideal", "--max-loras", "4", "--max-lora-rank", "64")
    added = extras(tuned)["adapters"]["bytes"] - extras(ideal)["adapters"]["bytes"]
    assert added == 4 * 64 * 2 * ends
    assert doubt(tuned) - doubt(run_json(*asked)) < 0.01 * extras(tuned)["adapters"]["bytes"]


def test_the_safe_end_allows_for_the_ends_of_a_language_model_that_no_class_names():
    """8 adapters of rank 512: 8 x 512 x 2 x (151,552 + 4,096) x 2 B on every rank, if GLM-4.5V's own model adapts them."""
    asked = ("fit", "glm-4.5v", "--gpu", "h200:4", "--tp", "4", "--ctx", "8k", "--engine", "vllm")
    plain, tuned = run_json(*asked), run_json(*asked, "--max-loras", "8", "--max-lora-rank", "512")
    share = 1 + extras(tuned)["adapters"]["bytes"] / int(weights_of(plain)["low"])
    assert doubt(tuned) - share * doubt(plain) == pytest.approx(8 * 512 * 2 * (151_552 + 4_096) * 2, rel=1e-6)
