"""Variables of a Dockerfile: ARG before and in a stage, and ENV.

Source: https://docs.docker.com/reference/dockerfile, "Understand how ARG and FROM interact" and "Using ARG variables", and
https://docs.docker.com/build/building/variables, "Scoping": an argument of the file is a stage's only where the stage names
it, is handed to stages over that one, is overridden by ENV, and isn't in the environment of what the image runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from check.test_serving import read

from kvplan.manifests import parse
from kvplan.manifests.processes.container import Served
from kvplan.manifests.tree import WorkingTree

IMAGE = "FROM vllm/vllm-openai:v0.20.0 AS base\n"


def served_by(text: str) -> str | None:
    """The release that the image's server has; None where that isn't certain."""
    (command,) = read(f'{text}\nCMD ["vllm", "serve", "m"]\n', "Dockerfile").commands
    return command.version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("ARG V=0.11.0\nFROM python:3.12\nARG V\nRUN pip install vllm==$V", "0.11.0"),
        ("ARG V=0.11.0\nFROM python:3.12\nARG V=0.12.0\nRUN pip install vllm==$V", "0.12.0"),
        ("ARG A=0.11.0\nARG V=$A\nFROM python:3.12\nARG A=1 V\nRUN pip install vllm==$V", "0.11.0"),
        ("FROM python:3.12\nARG V=0.11.0\nARG V\nRUN pip install vllm==$V", "0.11.0"),
        ("FROM python:3.12\nENV V=0.11.0\nARG V=0.12.0\nRUN pip install vllm==$V", "0.11.0"),
        ("FROM python:3.12\nARG A=0.11.0\nENV V=$A\nRUN pip install vllm==$V", "0.11.0"),
        ("FROM python:3.12 AS a\nARG V=0.11.0\nFROM a\nRUN pip install vllm==$V", "0.11.0"),
        ("ARG V=0.11.0\nFROM python:3.12\nRUN pip install vllm==$V", None),
        ("FROM python:3.12 AS a\nARG V=0.11.0\nFROM python:3.12\nRUN pip install vllm==$V", None),
        ("ARG V=v0.11.0\nFROM vllm/vllm-openai:$V", "0.11.0"),
        ("FROM python:3.12 AS a\nARG V=v0.11.0\nFROM vllm/vllm-openai:${V:-v0.12.0}", "0.12.0"),
    ],
)
def test_what_an_argument_says(text: str, version: str | None):
    assert served_by(text) == version


@pytest.mark.parametrize("argument", ["ARG LEN=4096\n", "ARG LEN=4096\nARG LEN\n"])
def test_what_an_image_runs_does_not_find_an_argument(argument: str):
    found = read(f"{IMAGE}{argument}ENTRYPOINT vllm serve m --max-model-len $LEN\n", "Dockerfile")
    assert not found.commands
    assert "$LEN" in found.unread[0].why
    (command,) = read(
        f"{IMAGE}{argument}ENV LEN=$LEN\nENTRYPOINT vllm serve m --max-model-len $LEN\n", "Dockerfile"
    ).commands
    assert command.layer[("context",)].value == 4096


def test_nor_its_device():
    text = f'{IMAGE}ARG CUDA_VISIBLE_DEVICES=0\nENTRYPOINT ["vllm", "serve", "m", "-tp", "2"]\n'
    (command,) = read(text, "Dockerfile").commands
    assert not command.remarks
    (command,) = read(text.replace("ARG", "ENV"), "Dockerfile").commands
    assert [remark.rule for remark in command.remarks] == ["gpu-count"]


BUILT = """\
services:
  v:
    build: {build}
    image: registry.local/llm:1.2
    {words}
    deploy: {{resources: {{reservations: {{devices: [{{count: 1}}]}}}}}}
"""
FLAGS = "--model m -tp 2"


def served(folder: Path, dockerfile: str, words: str, build: str = ".") -> Served:
    """What a service runs of an image that is built from a Dockerfile beside it."""
    (folder / "Dockerfile").write_text(dockerfile)
    name = str(folder / "compose.yaml")
    return parse(BUILT.format(build=build, words=words), name, WorkingTree())


@pytest.mark.parametrize(
    ("dockerfile", "words", "build", "release"),
    [
        ("FROM vllm/vllm-openai:v0.11.0\nRUN pip install hf_transfer\n", f"command: {FLAGS}", ".", "0.11.0"),
        ("FROM vllm/vllm-openai:v0.11.0\nENTRYPOINT [vllm]\n", "entrypoint: vllm serve m -tp 2", ".", "0.11.0"),
        (
            'FROM python:3.12\nRUN pip install vllm==0.10.2\nENTRYPOINT ["vllm", "serve"]\nCMD ["x"]\n',
            "command: m -tp 2",
            "{context: .}",
            "0.10.2",
        ),
        (
            "ARG V=0.9.0\nFROM vllm/vllm-openai:v${V}\n",
            f"command: {FLAGS}",
            "{context: ., args: {V: 0.11.0}}",
            "0.11.0",
        ),
        (
            "FROM vllm/vllm-openai:v0.10.0 AS a\nFROM vllm/vllm-openai:v0.11.0\n",
            f"command: {FLAGS}",
            "{context: ., target: a}",
            "0.10.0",
        ),
        (
            "FROM python:3.12\nARG V=0.9.0\nRUN pip install vllm==${V}\n",
            "command: vllm serve m -tp 2",
            "{context: ., args: [V=0.11.0]}",
            "0.11.0",
        ),
    ],
)
def test_a_service_runs_what_its_dockerfile_builds(
    tmp_path: Path, dockerfile: str, words: str, build: str, release: str
):
    (command,) = served(tmp_path, dockerfile, words, build).commands
    assert (command.name, command.layer["model",].value, command.version) == ("v", "m", release)
    assert [remark.text for remark in command.remarks] == [
        "tensor parallel size 2 needs 2 GPUs, and the container asks for 1"
    ]
    assert {placed.place.file for placed in command.layer.values()} == {str(tmp_path / "compose.yaml")}


@pytest.mark.parametrize(
    "build",
    ["./app", "https://github.com/a/b.git", "{context: ., dockerfile: gpu.Dockerfile}", "{context: ., target: b}"],
)
def test_a_service_whose_dockerfile_is_not_here_says_so(tmp_path: Path, build: str):
    found = served(tmp_path, "FROM vllm/vllm-openai:v0.11.0\n", f"command: {FLAGS} --max-model-len 8", build)
    assert not found.commands
    assert found.unread[0].why.startswith("its image is built from ")
    assert "Dockerfile" in found.unread[0].why


def test_a_dockerfile_over_an_image_that_nobody_knows(tmp_path: Path):
    found = served(tmp_path, "FROM ours/server:2\n", f"command: {FLAGS} --max-model-len 8")
    assert [each.why for each in found.unread] == [
        "its image is built from Dockerfile, and what serves there with these arguments isn't known here"
    ]
