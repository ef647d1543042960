"""What reports say of commands: nothing that another line of the same report contradicts, or that isn't so."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check
from check.test_idioms import POD, remarks, unread
from check.test_serving import read

LONGER = [
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve Qwen/Qwen3-8B --max-model-len 65536",
    """vllm serve Qwen/Qwen3-8B --max-model-len 65536 --hf-overrides '{"max_position_embeddings": 65536}'""",
]


@pytest.mark.parametrize("line", LONGER)
@pytest.mark.usefixtures("folder")
def test_a_length_that_is_allowed_is_not_refused(line: str):
    Path("run.sh").write_text(line + "\n")
    (result,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    said = " ".join(result["warnings"])
    assert "more than the model's own maximum of 40,960" in said
    assert "refuses" not in said


@pytest.mark.usefixtures("folder")
def test_a_draft_by_layers_that_are_not_there_is_no_guess():
    config = '{"method": "mtp", "num_speculative_tokens": 2}'
    Path("run.sh").write_text(f"vllm serve Qwen/Qwen3-8B --max-model-len 8192 --speculative-config '{config}'\n")
    (result,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    assert result["status"] == "fail"
    assert not result["warnings"]


@pytest.mark.usefixtures("folder")
def test_only_options_of_the_command_are_named():
    config = '{"method": "ngram", "num_speculative_tokens": 2}'
    Path("run.sh").write_text(f"vllm serve Qwen/Qwen3-8B --max-model-len 8192 --speculative-config '{config}'\n")
    assert "--draft" not in check("run.sh", "--gpu", "h100").out


def test_a_list_says_that_there_is_more():
    ((_, said),) = remarks(POD.format("args: [--model, m, --quantization, exl3]"))
    assert said.startswith("vLLM refuses --quantization exl3: no release has it; it takes ")
    assert said.rpartition(" and ")[2].endswith(" more")
    ((_, said),) = remarks(POD.format("args: [--model, m, --quantization, gptq_marln]"))
    assert "did you mean gptq_marlin" in said


RAY = """\
    apiVersion: ray.io/v1
    kind: RayService
    metadata: {name: r}
    spec:
      rayClusterConfig:
        workerGroupSpecs:
        - template: {spec: {containers: [{name: ray-worker, image: vllm/vllm-openai:v0.11.0}]}}
"""
INFERENCE = """\
    apiVersion: serving.kserve.io/v1alpha1
    kind: LLMInferenceService
    metadata: {name: l}
    spec:
      model: {uri: hf://Qwen/Qwen3-8B, name: q}
      template: {containers: [{name: main, image: vllm/vllm-openai:v0.11.0, args: [--max-model-len=8192]}]}
"""


def test_what_serves_nothing_is_not_listed():
    for text, name in (
        (RAY, "f.yaml"),
        (
            POD.replace("vllm/vllm-openai:v0.11.0", "me/gradio-rag-milvus-vllm-openai:1").format(
                "args: [--port, '80']"
            ),
            "f.yaml",
        ),
        ('if is_running "vllm serve" $PID; then echo x; fi\n', "f.sh"),
    ):
        found = read(text, name)
        assert not found.commands
        assert not found.unread


def test_what_is_listed_for_what_it_lacks():
    assert unread(POD.format("args: [--port, '80']")) == [(4, "it names no model")]
    ((_, why),) = unread(INFERENCE)
    assert why == "a runtime that isn't in this file decides the command"
    ((_, why),) = unread('"$VLLM_BIN" serve Qwen/Qwen3-8B\n', "f.sh")
    assert why == "it runs $VLLM_BIN serve, and which program that is, only the shell knows"
    assert read('VLLM_BIN=/opt/vllm\n"$VLLM_BIN" serve Qwen/Qwen3-8B\n', "f.sh").commands


@pytest.mark.usefixtures("folder")
def test_a_comment_starts_nothing():
    Path("run.sh").write_text("  # vllm serve Qwen/Qwen3-8B\necho\n")
    (entry,) = check("run.sh", "--gpu", "h100", "--json").document["unread"]
    assert entry["why"] == "it has no serve command of vLLM"


SCRIPT = """\
    apiVersion: v1
    kind: Pod
    metadata: {name: p}
    spec:
      containers:
      - name: v
        image: vllm/vllm-openai:v0.11.0
        command:
        - bash
        - -c
        - |
          echo
          exec vllm serve "$@"
        - --
        args: [m, --max-model-len, %s]
"""


@pytest.mark.parametrize("value", ["'8192'", "$(LEN)"])
def test_what_was_read_is_not_listed_as_another_language(value: str):
    found = read(SCRIPT % value)
    assert len(found.commands) + len(found.unread) == 1
