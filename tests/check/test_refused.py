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
