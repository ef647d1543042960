"""Flags and values that nobody sees: too little memory by the others is no answer, as they may ask for more GPUs or less of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check

LARGE = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --gpu-memory-utilization 0.1"


@pytest.mark.parametrize("words", ['"$@"', "$EXTRA", '"${ARGS[@]}"', "${FOO:+--max-model-len 2048}"])
def test_too_little_memory_beside_unseen_flags_is_no_answer(folder: Path, words: str):
    (folder / "run.sh").write_text(f"{LARGE} {words}\n")
    done = check("run.sh", "--gpu", "h100", "--json")
    (result,) = done.document["results"]
    assert (done.code, result["status"]) == (2, "error")
    assert "that kvplan can't see" in result["error"]["what"]
    assert "8,192 tokens" in result["error"]["cause"]
    assert result["error"]["shown"]["line"] == 1


@pytest.mark.parametrize("words", ["--cpu-offload-gb 10", "--quantization fp8", "--load-format bitsandbytes"])
def test_too_little_memory_beside_a_flag_that_frees_some_is_no_answer(folder: Path, words: str):
    (folder / "run.sh").write_text(f"{LARGE} {words}\n")
    (result,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    assert (result["status"], result["error"]["exit_code"]) == ("error", 2)
    assert words.split(maxsplit=1)[0] in result["error"]["what"]
    assert "weights:" in result["error"]["hint"]
    said = "{from: run.sh, gpu: h100, flags: {weights: 15GiB}}"
    (folder / "kvplan-budget.yaml").write_text(f"kvplan-budget: 1\ndeployments:\n  a: {said}\n")
    assert check().code == 1


def test_too_little_memory_alone_is_a_no(folder: Path):
    (folder / "run.sh").write_text(f"{LARGE}\n")
    assert check("run.sh", "--gpu", "h100").code == 1


def test_what_no_flag_can_mend_stays_a_no(folder: Path):
    (folder / "run.sh").write_text('vllm serve meta-llama/Llama-3.1-8B-Instruct --block-size 7 "$@"\n')
    assert check("run.sh", "--gpu", "h100").code == 1


def test_enough_memory_beside_unseen_flags_is_a_yes_with_a_warning(folder: Path):
    (folder / "run.sh").write_text('vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 "$@"\n')
    done = check("run.sh", "--gpu", "h100", "--json")
    assert (done.code, done.document["results"][0]["status"]) == (0, "warn")


@pytest.mark.parametrize(
    "lines",
    [
        'ARGS=(--tensor-parallel-size 8 --max-model-len 8192)\nif [ -n "$X" ]; then ARGS+=(--enforce-eager); fi\nvllm serve llama-3-8b "${ARGS[@]}"',
        'A="-tp 8 --max-model-len 8192"\nif [ -n "$X" ]; then A="$A --enforce-eager"; fi\nvllm serve llama-3-8b $A',
        'C="vllm serve llama-3-8b -tp 8 --max-model-len 8192"\nif [ -n "$KV" ]; then C="$C --kv-cache-dtype $KV"; fi\neval "$C"',
        'C="vllm serve llama-3-8b -tp 8 --max-model-len 8192"\nif [ -n "$KV" ]; then C="$C --kv-cache-dtype $KV"; fi\nexec $C',
    ],
)
def test_what_is_certain_is_planned_beside_what_may_be_added(folder: Path, lines: str):
    (folder / "run.sh").write_text(f"{lines}\n")
    (result,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    assert (result["status"], result["subject"]["context"], result["subject"]["parallel"]["tp"]) == ("warn", 8192, 8)
    assert [row["rule"] for row in result["checks"] if row["status"] != "pass"] == ["unread-arguments"]


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ("", "its model is $MODEL, which only the shell knows. say it in the budget: `model: ...`"),
        ("model: llama-3-8b", "its --max-model-len is $LEN, which only the shell knows. say it in the budget: `context: ...`"),
        ("model: llama-3-8b, context: 8k", "its --tensor-parallel-size is $TP, which only the shell knows. say it in the budget: `parallel: {tp: ...}`"),
        ("model: llama-3-8b, context: 8k, parallel: {tp: 2}", None),
        ("context: 8k, parallel: {tp: 2}", None),
    ],
)  # fmt: skip
def test_a_budget_says_what_only_the_shell_knows(folder: Path, own: str, missing: str | None):
    (folder / "run.sh").write_text('vllm serve "$MODEL" --max-model-len $LEN -tp $TP --max-num-seqs 7\n')
    models = "models: {$MODEL: llama-3-8b}" if missing is None and "model:" not in own else ""
    budget = f"kvplan-budget: 1\n{models}\ndeployments:\n  a: {{from: run.sh, gpu: h100, {own}}}\n"
    (folder / "kvplan-budget.yaml").write_text(budget)
    (result,) = check("--json").document["results"]
    if missing is None:
        subject = result["subject"]
        assert (subject["context"], subject["parallel"]["tp"], subject["options"]["max_num_seqs"]) == (8192, 2, "7")
    else:
        assert f"{result['error']['what']}. {result['error']['hint']}" == missing
        assert result["at"] == {"file": "run.sh", "line": 1}


def test_one_of_several_commands_by_its_name(folder: Path):
    (folder / "run.sh").write_text("vllm serve llama-3-8b\nvllm serve $MODEL --max-model-len 4096\n")
    said = "{from: 'run.sh#line 2', gpu: h100, model: qwen3-8b}"
    (folder / "kvplan-budget.yaml").write_text(f"kvplan-budget: 1\ndeployments:\n  a: {said}\n")
    (result,) = check("--json").document["results"]
    assert (result["subject"]["model"], result["subject"]["context"]) == ("qwen3-8b", 4096)
