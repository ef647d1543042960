"""What a text is where its name doesn't say, what is listed because nobody reads it, and scripts that a pod mounts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from check.checking import check
from check.test_serving import read, values

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    "text",
    [
        f"#!/bin/bash\nset -e\nvllm serve {MODEL}\n",
        f"#!/usr/bin/env bash\nA: b\nvllm serve {MODEL}\n",
        f"vllm serve {MODEL}\n",
        f'# an image\nARG V=1\nFROM vllm/vllm-openai:v0.33.0\nCMD ["{MODEL}"]\n',
        f"# a unit\n[Unit]\nDescription=x\n[Service]\nExecStart=/usr/bin/vllm serve {MODEL}\n",
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: v, image: vllm/vllm-openai, args: [--model, {MODEL}]}}]}}\n",
    ],
)
def test_standard_input_is_read_as_what_it_is(text: str):
    (said,) = values(read(text, "-")).values()
    assert said["model"] == MODEL


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("run.sh", "by a command that kvplan doesn't know"),
        ("job.slurm", "by a command that kvplan doesn't know"),
        ("start", "by a command that kvplan doesn't know"),
        ("app.py", "in a language that kvplan doesn't read"),
    ],
)
def test_a_command_that_nobody_knows(folder: Path, name: str, why: str):
    head = "import os\n" if name.endswith(".py") else "#!/bin/sh\n"
    (folder / name).write_text(
        f'{head}launch(["vllm", "serve", "m"])\n' if head[0] == "i" else f"{head}launcher --engine vllm --model m\n"
    )
    assert why in str(check(name, "--gpu", "h100", "--json").document["unread"])


def test_yaml_with_holes_is_a_template():
    found = read("spec:\n  {{#each models}}\n  - args: [--model, {{name}}]\n  {{/each}}\n# vllm\n")
    assert [(unread.why, unread.place.line) for unread in found.unread] == [("a template: render it first", 2)]


KTHENA = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelBooster
metadata: {name: q}
spec:
  backend:
    type: vLLM
    modelURI: hf://Qwen/Qwen3-8B
    workers: [{type: server, image: "vllm/vllm-openai:v0.11.0", config: {max-model-len: 8192}}]
"""


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (KTHENA, "f.yaml", "its controller makes the command of that"),
        (f"lmcache_vllm serve {MODEL} --max-model-len 8192\n", "run.sh", "kvplan reads vLLM's command lines"),
        (
            f"helm upgrade --install v vllm/vllm-stack --set servingEngineSpec.modelSpec[0].modelURL={MODEL}\n",
            "run.sh",
            "helm template",
        ),
        (f"helm install v ./charts/x --set 'spec[0].modelURL={MODEL}'\n", "run.sh", "helm template"),
    ],
)
def test_what_is_surely_served_and_not_read(text: str, name: str, why: str):
    found = read(text, name)
    assert not found.commands
    assert why in found.unread[0].why


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "helm repo add vllm https://vllm-project.github.io/production-stack\nhelm install redis bitnami/redis --set x=vllm\n",
            "run.sh",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: q}\nspec: {type: ClusterIP, selector: {engine: vllm}}\n",
            "f.yaml",
        ),
    ],
)
def test_what_serves_nothing(text: str, name: str):
    assert not read(text, name).unread


MOUNTED = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: scripts}}
data:
  run.sh: |
    #!/bin/bash
    MODEL=$1
    exec vllm serve $MODEL --max-model-len 4096
---
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  volumes: [{{name: s, configMap: {{name: scripts}}}}]
  containers:
  - {{name: v, image: "vllm/vllm-openai:v0.33.0", command: {command}, volumeMounts: [{{name: s, mountPath: /scripts}}]}}
"""


@pytest.mark.parametrize(
    "command", ["[bash, /scripts/run.sh, m]", "[bash, -e, /scripts/run.sh, m]", "[/scripts/run.sh, m]", "[bash, -c, 'bash /scripts/run.sh m']", "[sh, -c, 'exec /scripts/run.sh m']"]
)  # fmt: skip
def test_a_script_of_a_config_map(command: str):
    (read_,) = read(MOUNTED.format(command=command)).commands
    assert (read_.layer["model",].value, read_.layer["context",].value) == ("m", 4096)
    assert read_.layer["context",].place.line == 8


@pytest.mark.parametrize("command", ["[bash, /other/run.sh, m]", "[bash, /scripts/other.sh]"])
def test_a_script_that_is_not_here(command: str):
    found = read(MOUNTED.format(command=command))
    assert not found.commands
    assert found.unread


def test_standard_input_of_a_run(monkeypatch: pytest.MonkeyPatch):
    class Piped(io.StringIO):
        buffer = io.BytesIO(b"#!/bin/sh\nvllm serve llama-3-8b --max-model-len 8192\n")

    monkeypatch.setattr("sys.stdin", Piped())
    assert check("-", "--gpu", "h100").code == 0
