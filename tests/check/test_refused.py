"""Flags that vLLM itself refuses to start with: a no like too little memory, beside whatever else was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check

REFUSED = {
    # v1/worker/utils.py request_memory
    "--gpu-memory-utilization 1.0": "does not start: vLLM 0.33.0 doesn't start with gpu_memory_utilization 1",
    # config/scheduler.py __post_init__ and verify_max_model_len
    "--max-num-seqs 4 --max-num-active-seqs 8": "does not start: max_num_active_seqs (8)",
    "--max-num-batched-tokens 64 --max-num-seqs 128": "does not start: max_num_batched_tokens (64)",
    "--no-enable-chunked-prefill --max-num-batched-tokens 4096": "does not start: max_num_batched_tokens (4096)",
}
LINE = "CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B --max-model-len 8192 -tp 2 {flags}\n"
BUDGET = """\
kvplan-budget: 1
defaults: {{gpu: h100, engine: vllm@0.33, context: 8k, flags: {{gpu_memory_utilization: 1.0}}}}
deployments:
  chat:
    model: Qwen/Qwen3-8B
    limits: {{{starts}min_sequences: 2}}
"""


@pytest.mark.parametrize(("flags", "message"), REFUSED.items())
@pytest.mark.usefixtures("folder")
def test_it_fails_beside_what_else_is_wrong(flags: str, message: str):
    Path("run.sh").write_text(LINE.format(flags=flags))
    found = check("run.sh", "--gpu", "h100", "--engine", "vllm@0.33", "--json")
    (result,) = found.document["results"]
    assert (found.code, result["status"], result["error"]) == (1, "fail", None)
    starts, *others = result["checks"]
    assert (starts["rule"], starts["status"]) == ("starts", "fail")
    assert starts["message"].startswith(message)
    assert starts["hint"]
    assert [row["rule"] for row in others] == ["gpu-count"]


@pytest.mark.parametrize("starts", ["", "starts: {level: warn}, "])
@pytest.mark.usefixtures("folder")
def test_no_limit_is_kept_without_numbers(starts: str):
    Path("kvplan-budget.yaml").write_text(BUDGET.format(starts=starts))
    found = check("--json")
    (result,) = found.document["results"]
    assert found.code == 1
    assert [(row["rule"], row["status"], row["actual"]) for row in result["checks"]] == [
        ("starts", "warn" if starts else "fail", None),
        ("min-sequences", "fail", None),
    ]


@pytest.mark.usefixtures("folder")
def test_a_lock_does_not_leave_it_out():
    Path("kvplan-budget.yaml").write_text(BUDGET.format(starts=""))
    found = check("--update")
    assert found.code == 2
    assert "chat" in found.err
    assert not list(Path().glob("*.lock*"))


@pytest.mark.parametrize("form", ["table", "github", "sarif", "junit", "markdown"])
@pytest.mark.usefixtures("folder")
def test_every_form_tells_it(form: str):
    Path("kvplan-budget.yaml").write_text(BUDGET.format(starts=""))
    assert "does not start" in " ".join(check("--format", form).out.split())


SURE = {
    # config/model.py verify_with_parallel_config: 32 heads
    ("Qwen/Qwen3-8B -tp 3", None): "--tp 3 can't split qwen3-8b",
    # v1/attention/backends: blocks are multiples of 16
    ("Qwen/Qwen3-8B --block-size 24", None): "vLLM has no attention backend",
    # model_executor/models/registry.py of the release
    ("Qwen/Qwen3-8B", "vllm@0.7.3"): "vLLM 0.7.3 doesn't serve Qwen3ForCausalLM",
    # config/model.py _verify_with_expert_parallelism
    ("Qwen/Qwen3-8B -tp 2 -ep", None): "Number of experts in the model must be greater than 0",
}


@pytest.mark.parametrize(("line", "engine"), SURE)
@pytest.mark.usefixtures("folder")
def test_what_vllm_refuses_whatever_the_memory_is_a_no(line: str, engine: str | None):
    Path("run.sh").write_text(f"vllm serve {line} --max-model-len 8192\n")
    found = check("run.sh", "--gpu", "h100", *(("--engine", engine) if engine else ()), "--json")
    (result,) = found.document["results"]
    assert (found.code, result["status"], result["error"]) == (1, "fail", None)
    assert SURE[line, engine] in next(row["message"] for row in result["checks"] if row["rule"] == "starts")


@pytest.mark.parametrize("line", ["Qwen/Qwen3-8B -pp 100", "nobody/nothing"])
@pytest.mark.usefixtures("folder")
def test_what_only_kvplan_cannot_plan_is_no_answer(line: str):
    Path("run.sh").write_text(f"vllm serve {line} --max-model-len 8192\n")
    found = check("run.sh", "--gpu", "h100", "--json")
    assert found.code in {2, 3}
    assert [result["status"] for result in found.document["results"]] == ["error"]
