"""What follows an image, and which release runs it: by the image's own entry point, and by what is installed before.

Source: vLLM docker/Dockerfile, its issues 37133 and 22072; moby's dispatchers of ENTRYPOINT and CMD; Slurm's pyxis.
"""

from __future__ import annotations

import pytest
from check.test_serving import read, values

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec: {{containers: [{{name: v, image: "{image}", {words}}}]}}
"""
WHOLE = [
    f'args: [serve, {MODEL}]', f'args: [vllm, serve, {MODEL}]', f'args: [bash, -c, "vllm serve {MODEL}"]',
    f"args: [python3, -m, vllm.entrypoints.openai.api_server, --model, {MODEL}]",
]  # fmt: skip


@pytest.mark.parametrize("words", WHOLE)
@pytest.mark.parametrize(("image", "level"), [("vllm/vllm-openai:v0.20.0", ["error"]), ("ghcr.io/x/vllm-node:1", [])])
def test_a_whole_command_after_an_entry_point(words: str, image: str, level: list[str]):
    (command,) = read(POD.format(image=image, words=words), "f.yaml").commands
    assert [each.level for each in command.remarks if each.rule == "bad-argument"] == level
    assert command.layer["model",].value == MODEL


@pytest.mark.parametrize(
    "words", [*(each.replace("args", "command") for each in WHOLE[1:]), f"args: [{MODEL}]", f"args: [--model, {MODEL}]"]
)
def test_a_command_instead_of_an_entry_point(words: str):
    (command,) = read(POD.format(image="vllm/vllm-openai:v0.20.0", words=words), "f.yaml").commands
    assert not command.remarks


@pytest.mark.parametrize(
    ("script", "release"),
    [
        ("srun --container-image=vllm/vllm-openai:v0.11.0 vllm serve m", "0.11.0"),
        ("srun --container-image docker://vllm/vllm-openai:v0.11.0 bash -c 'vllm serve m'", "0.11.0"),
        ("docker run --entrypoint bash vllm/vllm-openai:v0.20.0 -c 'vllm serve m'", "0.20.0"),
        ("docker run ghcr.io/x/vllm:vllm0.9.2 bash -c 'vllm serve m'", "0.9.2"),
        ("pip install vllm==0.10.0\nvllm serve m", "0.10.0"),
        ("uv pip install 'vllm[audio]==0.10.0' && exec vllm serve m", "0.10.0"),
        ("uv run --with vllm==0.11.0 vllm serve m", "0.11.0"),
        ("uvx vllm==0.11.0 serve m", None),
        ("pip install vllm==0.10.0; pip install vllm==0.11.0; vllm serve m", "0.11.0"),
        ("pip install vllm==0.10.0; pip install -U vllm; vllm serve m", None),
        ("pip install 'vllm>=0.10.0'; vllm serve m", None),
        ("pip install vllm==0.10.0", None),
    ],
)
def test_releases_that_a_script_names(script: str, release: str | None):
    found = [command.version for command in read(f"{script}\n", "run.sh").commands]
    assert found in ([release], [])
    assert release is None or found


@pytest.mark.parametrize(
    "command",
    [
        "docker manifest create vllm/vllm-openai:latest vllm/vllm-openai:x86", "docker pull vllm/vllm-openai:latest",
        "docker buildx imagetools create -t vllm/vllm-openai:a vllm/vllm-openai:b", "docker tag vllm/vllm-openai:a run", "docker push vllm/vllm-openai",
        "docker build -t vllm/vllm-openai:run .", "docker exec run vllm/vllm-openai",
    ],
)  # fmt: skip
def test_commands_about_images_run_none(command: str):
    assert not read(f"{command}\n", "run.sh").commands
    assert not read(f"{command}\n", "run.sh").unread


@pytest.mark.parametrize(
    "runner", ["docker", "sudo -E docker", "docker --context x", "docker container", "podman", "docker -H tcp://h"]
)
def test_commands_that_run_an_image(runner: str):
    (command,) = read(f"{runner} run --gpus all vllm/vllm-openai:v0.11.0 --model m\n", "run.sh").commands
    assert command.version == "0.11.0"


BUILT = {
    'FROM vllm/vllm-openai:v0.20.0\nCMD ["m"]\nENTRYPOINT ["vllm", "serve"]\n': "0.20.0",
    'FROM python:3.12\nRUN pip install vllm==0.10.0\nCMD ["vllm", "serve", "m"]\n': "0.10.0",
}


@pytest.mark.parametrize(("text", "release"), BUILT.items())
def test_dockerfiles(text: str, release: str):
    (said,) = values(read(text, "Dockerfile")).values()
    assert (said["model"], said["engine"]) == ("m", f"vllm@{release}")


def test_an_entry_point_takes_the_command_of_an_earlier_stage_away():
    text = 'FROM python:3.12 AS a\nCMD ["vllm", "serve", "m"]\nFROM a\nENTRYPOINT ["env"]\n'
    assert not read(text, "Dockerfile").commands


def test_a_script_is_no_model():
    text = POD.format(image="vllm/vllm-openai:v0.20.0", words='args: ["export A=1\\n--model m --max-model-len 8\\n"]')
    found = read(text, "f.yaml")
    assert not found.commands
    assert "a script stands where its model should" in found.unread[0].why
