"""Images of vLLM that start something else, and models that lie in a container."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check
from check.test_serving import read

COMPOSE = "services: {{a: {{image: 'vllm/vllm-openai:v0.33.0', command: --model {model}, volumes: ['{volume}']}}}}\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("docker run -it rocm/vllm-dev:nightly /bin/bash\n", "run.sh"),
        ("docker run -it vllm/vllm-openai:v0.10.1 bash -l\n", "run.sh"),
        ("docker run -d --name v vllm/vllm-openai:v0.10.1 sleep infinity\n", "run.sh"),
        ('FROM rocm/vllm\nCMD ["/bin/bash"]\n', "Dockerfile"),
        ("services: {a: {image: rocm/vllm, command: /bin/bash}}\n", "compose.yaml"),
    ],
)
def test_a_shell_serves_nothing(text: str, name: str):
    found = read(text, name)
    assert (found.commands, found.unread) == ((), ())


@pytest.mark.parametrize(
    "words",
    [
        "python3 -c 'import x'",
        "python3.12 serve.py",
        "/usr/bin/env x",
        "bash /scripts/run.sh",
        "/app/start.sh --model x",
    ],
)
def test_another_program_is_unread(words: str):
    found = read(f"docker run rocm/vllm-dev:nightly {words}\n", "run.sh")
    assert not found.commands
    assert "what that serves doesn't stand here" in found.unread[0].why


@pytest.mark.parametrize("words", ["m", "org/m", "/models/m", "./m", "--model m", "serve m"])
def test_a_model_is_no_program(words: str):
    assert read(f"docker run rocm/vllm-dev:nightly {words}\n", "run.sh").commands


def told(text: str, name: str) -> str:
    Path(name).write_text(text)
    return str(check(name, "--gpu", "h100", "--json").document)


@pytest.mark.parametrize("line", ["--model {}", "{} --max-model-len 8192"])
def test_a_path_in_a_container_is_not_this_machines(folder: Path, line: str):
    model = folder / "m.yaml"  # which would be found, were it looked for
    model.write_text("name: x\n")
    said = told(f"docker run --gpus all vllm/vllm-openai:v0.33.0 {line.format(model)}\n", "run.sh")
    assert f"its model is {model}, a path in its container" in said
    assert "models:" in said


def test_a_budget_says_what_a_path_in_a_container_is(folder: Path):
    (folder / "run.sh").write_text(
        "docker run --gpus all vllm/vllm-openai:v0.33.0 --model /app/model --max-model-len 8192\n"
    )
    (folder / "kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\nmodels: {/app/model: llama-3-8b}\ndeployments: {a: {from: run.sh, gpu: h100}}\n"
    )
    assert check("kvplan-budget.yaml").code == 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "docker run --gpus all -v ./models/llama:/app/model:ro vllm/vllm-openai:v0.33.0 --model /app/model\n",
            "d/run.sh",
        ),
        ("docker run --gpus all --volume ./models:/app vllm/vllm-openai:v0.33.0 --model /app/llama\n", "d/run.sh"),
        (COMPOSE.format(model="/app/llama", volume="./models:/app"), "d/compose.yaml"),
    ],
)
def test_a_mounted_path_of_the_tree_is_where_it_is_mounted_from(folder: Path, text: str, name: str):
    source = folder / "d/models/llama"
    source.mkdir(parents=True)
    said = told(text, name)
    assert str(source) in said
    assert "a path in its container" not in said


@pytest.mark.parametrize("volume", ["/data/models:/app", "models:/app", "~/models:/app"])
def test_a_path_mounted_from_elsewhere_is_not_this_machines(folder: Path, volume: str):
    assert folder
    assert "a path in its container" in told(COMPOSE.format(model="/app/llama", volume=volume), "compose.yaml")
