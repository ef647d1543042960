"""Flags that change a plan, from a serve command to its numbers, by vLLM's own arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check

GRANITE = "ibm-granite/granite-4.0-h-small --max-model-len 8192"
GEMMA = "google/gemma-3-27b-it -tp 2 --max-model-len 65536"
NEXT = "Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --max-model-len 8192"
EXPERTS = "Qwen/Qwen3-30B-A3B --max-model-len 8192"


def result(flags: str, gpu: str, *words: str) -> dict:
    Path("run.sh").write_text(f"vllm serve {flags}\n")
    (found,) = check("run.sh", "--gpu", gpu, *words, "--json").document["results"]
    return found


def sequences(flags: str, gpu: str = "h100") -> int:
    found: int = result(flags, gpu)["numbers"]["max_sequences"]["safe"]
    return found


@pytest.mark.parametrize(
    "drafting",
    [
        '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 10}\'',
        "--spec-method ngram --spec-tokens 10",
        "--spec-method suffix --spec-tokens 10",
        "--spec-method medusa --spec-model x/y --spec-tokens 10",
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_recurrent_model_keeps_a_state_for_each_token_that_is_guessed(drafting: str):
    """vLLM 0.33's planner: 803 blocks of 576 tokens, 6.08 sequences at once."""
    assert sequences(f"{GRANITE} --kv-cache-memory-bytes 7584401166 {drafting}", "h800") == 6


@pytest.mark.usefixtures("folder")
def test_a_model_without_prediction_layers_does_not_draft_for_itself():
    """vLLM 0.33 config/speculative.py: Unsupported speculative method."""
    found = result("Qwen/Qwen3-8B --max-model-len 8192 --spec-method mtp --spec-tokens 1", "h100")
    assert found["status"] == "fail"
    assert "states no prediction layers" in found["checks"][0]["message"]
    assert result(f"{NEXT} --spec-method mtp --spec-tokens 1", "h800")["status"] != "fail"


@pytest.mark.usefixtures("folder")
def test_guessed_tokens_use_no_prediction_layers():
    plain, guessed, own = (
        result(f"{NEXT} {flags}", "h800")["numbers"]
        for flags in ("", "--spec-method ngram --spec-tokens 2", "--spec-method mtp --spec-tokens 2")
    )
    assert guessed["weights"] == plain["weights"]
    assert guessed["kv_per_token"]["ideal"] == plain["kv_per_token"]["ideal"] < own["kv_per_token"]["ideal"]
    assert plain["max_sequences"]["safe"] > guessed["max_sequences"]["safe"] > own["max_sequences"]["safe"]


@pytest.mark.parametrize(
    ("flags", "same_as"),
    [  # get_batch_defaults of an H100: 8,192 tokens and 1,024 sequences
        (f"{GEMMA} --performance-mode throughput", f"{GEMMA} --max-num-batched-tokens 16384 --max-num-seqs 2048"),
        (
            f"{GEMMA} --performance-mode throughput --max-num-seqs 8",
            f"{GEMMA} --max-num-batched-tokens 16384 --max-num-seqs 8",
        ),
        (f"{GEMMA} --performance-mode balanced --enable-chunked-prefill", GEMMA),
        (f"{EXPERTS} -dp 4 --all2all-backend deepep_low_latency", f"{EXPERTS} -dp 4"),  # use_batched_dp_moe wants both
    ],
)
@pytest.mark.usefixtures("folder")
def test_steps_as_vllm_makes_them(flags: str, same_as: str):
    assert result(flags, "h100")["numbers"] == result(same_as, "h100")["numbers"]


@pytest.mark.usefixtures("folder")
def test_experts_that_exchange_tokens_in_batches_have_buffers():
    """DeepEP's for 256 tokens, 128 experts and 2,048 hidden states, 4 x 256 x 128 x (4,096 + 64) B, and 1 GiB.

    Their rooms are of 256 x 128 tokens, 2,048 wide and 768, and as many that came; else of 4 x 256 x 8 with 2,048 twice.
    """
    batched, plain = (
        result(
            f"{EXPERTS} -dp 4 --enable-expert-parallel --max-num-batched-tokens 256 --max-num-seqs 256 {flag}", "h100"
        )["numbers"]
        for flag in ("--all2all-backend deepep_low_latency", "")
    )
    assert batched["headroom"]["likely"] < plain["headroom"]["likely"] - 4 * 256 * 128 * 4160 - 2**30


@pytest.mark.usefixtures("folder")
def test_steps_of_whole_prompts_are_as_long_as_the_longest():
    """At 65,536 tokens a step has as many; at other lengths, of which the longest is one, it has those."""
    whole = result(f"{GEMMA} --no-enable-chunked-prefill", "h100")["numbers"]
    same = result(f"{GEMMA} --max-num-batched-tokens 65536", "h100")["numbers"]
    longest, other = whole.pop("max_context"), same.pop("max_context")
    assert whole == same
    assert longest["safe"] > other["safe"]
    assert longest["likely"] < other["likely"]


@pytest.mark.parametrize(
    ("flags", "alone"),
    [
        ("--language-model-only", True),
        ("--limit-mm-per-prompt '{\"image\": 0}'", True),
        ("--limit-mm-per-prompt image=0", True),
        ("--limit-mm-per-prompt.image 0", True),
        ('--limit-mm-per-prompt \'{"image": {"count": 0}, "video": 0}\'', True),
        ("--limit-mm-per-prompt '{\"image\": 2}'", False),
        ("--limit-mm-per-prompt '{\"video\": 0}'", False),
    ],
)
@pytest.mark.usefixtures("folder")
def test_text_alone(flags: str, alone: bool):
    """Gemma 3 reads images alone; vLLM 0.33 builds 846,153,440 B less without them."""
    gemma = "google/gemma-3-27b-it --max-model-len 8192"
    plain, found = (result(f"{gemma} {each}", "h200")["numbers"]["weights"]["likely"] for each in ("", flags))
    assert (plain - found == pytest.approx(846_153_440, abs=2**20)) is alone
    assert (plain == found) is not alone


@pytest.mark.usefixtures("folder")
def test_whole_prompts_leave_gemma_one_sequence():
    """vLLM 0.33's planner: 5.74 sequences at once, and 2.13 where a step holds a whole prompt."""
    room = f"{GEMMA} --kv-cache-memory-bytes 40000000000"
    assert sequences(room) == 5
    assert sequences(f"{room} --no-enable-chunked-prefill") == 2


@pytest.mark.usefixtures("folder")
def test_running_sequences_are_capped():
    assert sequences("Qwen/Qwen3-8B --max-model-len 8192") > 2
    assert sequences("Qwen/Qwen3-8B --max-model-len 8192 --max-num-active-seqs 2") == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (f"{GEMMA} --no-enable-chunked-prefill --max-num-batched-tokens 8192", "is smaller than max_model_len (65536)"),
        (f"{GRANITE} --no-enable-chunked-prefill", "Chunked prefill is required for Mamba prefix caching."),
        ("Qwen/Qwen3-8B --max-num-seqs 16 --max-num-active-seqs 32", "cannot be greater than max_num_seqs (16)"),
        ("Qwen/Qwen3-8B --gpu-memory-utilization 1.0", "doesn't start with gpu_memory_utilization 1"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_starts_that_vllm_refuses(flags: str, said: str):
    found = result(flags, "h100")
    assert said in str(found)
    assert found["status"] not in {"pass", "warn"}


@pytest.mark.usefixtures("folder")
def test_the_formula_takes_the_most_sequences_as_fit_does():
    Path("kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\ndeployments:\n  a: {model: llama-3-8b, gpu: h100, engine: ideal, context: 8k, flags: {max_num_seqs: 3}}\n"
    )
    (found,) = check("--json").document["results"]
    assert found["numbers"]["max_sequences"]["safe"] == 3


@pytest.mark.usefixtures("folder")
def test_a_hybrid_takes_whole_prompts_without_prefix_caching():
    whole = f"{GRANITE} --no-enable-prefix-caching --no-enable-chunked-prefill"
    assert result(whole, "h800")["status"] == "pass"
