"""Variables of a Dockerfile: ARG before and in a stage, and ENV.

Source: https://docs.docker.com/reference/dockerfile, "Understand how ARG and FROM interact" and "Using ARG variables", and
https://docs.docker.com/build/building/variables, "Scoping": an argument of the file is a stage's only where the stage names
it, is handed to stages over that one, is overridden by ENV, and isn't in the environment of what the image runs.
"""

from __future__ import annotations

import pytest
from check.test_serving import read

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
