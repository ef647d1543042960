"""`kvplan check` plans as `kvplan fit` does: adapters, drafts, caches larger than the GPU, whatever a serve command says."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check
from cli.running import run_json

SERVE = "vllm serve llama-3-8b --max-model-len 8192 {}\n"
FIT = ("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k")
DRAFT = '{"model": "llama-3.2-1b", "num_speculative_tokens": 5}'


def numbers(folder: Path, flags: str) -> dict:
    (folder / "run.sh").write_text(SERVE.format(flags))
    (result,) = check("run.sh", "--gpu", "h100", "--offline", "--json").document["results"]
    assert [row["rule"] for row in result["checks"]] == ["starts"], result
    return result["numbers"]


@pytest.mark.parametrize(
    ("served", "asked"),
    [
        ("", ()),
        ("--enable-lora", ("--max-loras", "1")),
        ("--enable-lora --max-loras 4 --max-lora-rank 64", ("--max-loras", "4", "--max-lora-rank", "64")),
        ("--enable-lora --lora-target-modules q_proj v_proj", ("--max-loras", "1", "--lora-targets", "q_proj,v_proj")),
        (f"--speculative-config '{DRAFT}'", ("--draft", "llama-3.2-1b", "--speculative-tokens", "5")),
        ("--spec-model llama-3.2-1b --spec-tokens 5", ("--draft", "llama-3.2-1b", "--speculative-tokens", "5")),
        ("--max-loras 4 --max-lora-rank 64", ()),  # without --enable-lora vLLM has no adapters
        ("--speculative-config.model llama-3.2-1b --speculative-config.num_speculative_tokens 5 --enforce-eager",
         ("--draft", "llama-3.2-1b", "--speculative-tokens", "5", "--enforce-eager")),
    ],
)  # fmt: skip
def test_a_serve_command_is_planned_as_fit_plans_its_flags(folder: Path, served: str, asked: tuple[str, ...]):
    found = numbers(folder, served)
    for end in ("safe", "likely"):
        report = run_json(*FIT, *asked, f"--{end}")
        memory = report["per_gpu"]["low"] if end == "safe" else report["per_gpu"]
        assert found["kv_memory"][end] == memory["kv_bytes"]
        assert found["max_sequences"][end] == report["reserved"]["max_sequences"]
        assert found["max_context"][end] == report["max_context"]


def test_adapters_and_drafts_by_hand(folder: Path):
    plain, tuned, drafted = (
        numbers(folder, flags)
        for flags in ("", "--enable-lora --max-loras 2 --max-lora-rank 32", f"--speculative-config '{DRAFT}'")
    )
    # 4,096 wide, keys of 1,024, feed-forward 14,336: inputs and outputs of q, k, v, o, gate, up and down in 32 layers
    sides = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14_336)
    ends = 2 * (128_256 + 4096)  # vLLM gives embedding and head room too
    assert tuned["weights"]["likely"] - plain["weights"]["likely"] == 2 * 32 * (32 * sides + ends) * 2
    # 16 layers with 8 heads of 64, keys and values, beside 32 with 8 heads of 128
    assert plain["kv_per_token"]["ideal"] == 32 * 2 * 8 * 128 * 2
    assert drafted["kv_per_token"]["ideal"] - plain["kv_per_token"]["ideal"] == 16 * 2 * 8 * 64 * 2
    assert drafted["max_sequences"]["safe"] < plain["max_sequences"]["safe"]


def test_a_budget_says_it_in_its_own_words(folder: Path):
    (folder / "kvplan-budget.yaml").write_text("""\
kvplan-budget: 1
deployments:
  chat:
    model: llama-3-8b
    gpu: h100
    context: 8k
    draft: llama-3.2-1b
    flags: {num_speculative_tokens: 5, enable_lora: true, max_loras: 2}
""")
    (result,) = check("--offline", "--json").document["results"]
    report = run_json(*FIT, "--draft", "llama-3.2-1b", "--speculative-tokens", "5", "--max-loras", "2")
    assert result["numbers"]["max_sequences"]["safe"] == report["reserved"]["max_sequences"]


def test_adapters_that_nobody_switched_on_are_a_mistake_in_a_budget(folder: Path):
    (folder / "kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\ndeployments:\n  chat:\n    model: llama-3-8b\n    gpu: h100\n    flags: {max_loras: 2}\n"
    )
    ran = check("--offline")
    assert ran.code == 2
    assert "there are no adapters" in ran.out


def test_a_rank_that_no_release_takes_is_a_mistake_in_a_budget(folder: Path):
    (folder / "kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\ndeployments:\n  chat:\n    model: llama-3-8b\n    gpu: h100\n"
        "    flags: {enable_lora: true, max_lora_rank: 7}\n"
    )
    ran = check("--offline")
    assert ran.code == 2
    assert "one of 1, 8, 16" in " ".join(ran.out.split())


def test_a_draft_that_nobody_knows_has_no_answer(folder: Path):
    (folder / "run.sh").write_text(
        SERVE.format('--speculative-config \'{"model": "no-such", "num_speculative_tokens": 2}\'')
    )
    ran = check("run.sh", "--gpu", "h100", "--offline")
    assert ran.code == 2
    assert "no model is called 'no-such'" in " ".join(ran.out.split())


def test_a_cache_larger_than_the_gpu_does_not_start(folder: Path):
    (folder / "run.sh").write_text(SERVE.format("--kv-cache-memory-bytes 100000000000"))
    ran = check("run.sh", "--gpu", "h100", "--offline")
    assert ran.code == 1
    assert "more than the" in " ".join(ran.out.split())


@pytest.mark.parametrize(("gpu", "code"), [("m3-max-64gb", 2), ("gaudi3", 2), ("v100-sxm-32", 1)])
def test_devices_without_rules_are_no_answer_and_those_without_kernels_a_no(folder: Path, gpu: str, code: int):
    (folder / "run.sh").write_text(SERVE.format(""))
    assert check("run.sh", "--gpu", gpu, "--offline").code == code


@pytest.mark.parametrize(
    ("version", "flags", "refused"),
    [
        ("0.33.0", "--quantization bitsandbytes", True), ("0.20.0", "--quantization bitsandbytes", False),
        ("0.9.0", "--enable-lora --max-lora-rank 1", True), ("0.12.0", "--enable-lora --max-lora-rank 1", False),
    ],
)  # fmt: skip
def test_values_that_the_image_s_release_does_not_take(folder: Path, version: str, flags: str, refused: bool):
    pod = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  containers:
    - {{name: a, image: "vllm/vllm-openai:v{version}", args: [llama-3-8b, --max-model-len=8192, {flags.replace(" ", ", ")}]}}
"""
    (folder / "pod.yaml").write_text(pod)
    (result,) = check("pod.yaml", "--gpu", "h100", "--offline", "--json").document["results"]
    assert ("bad-argument" in [row["rule"] for row in result["checks"]]) is refused


def test_a_step_is_timed_with_each_ends_own_batch(folder: Path):
    (folder / "run.sh").write_text("vllm serve falcon-40b --max-model-len 2048\n")
    where = ("--gpu", "mi355x", "--engine", "vllm@0.28.0")
    (result,) = check("run.sh", *where, "--json").document["results"]
    found = result["numbers"]["tpot"]
    for end in ("safe", "likely"):
        decode = run_json("fit", "falcon-40b", *where, "--ctx", "2k", f"--{end}")["decode"]
        assert found[end] == decode["step_s_likely"], decode
