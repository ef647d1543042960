"""Images of other parts of Helm values: those that are off, and those for another device."""

from __future__ import annotations

import pytest
from check.test_installs import said
from check.test_serving import read

ARGS = 'args: ["--model", "m", "--max-model-len", "8192"]'


def versions(text: str) -> list[tuple[str | None, bool]]:
    """The version of each command of some values, and whether it is warned that nobody knows it."""
    return said(read(text, "values.yaml").commands)


@pytest.mark.parametrize(
    "sibling",
    [
        "benchmark: {image: 'vllm/vllm-openai:v0.8.5', enabled: false}",
        "cpu: {image: 'public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9.1'}",
        "rocm: {image: 'rocm/vllm:rocm6.4.1_vllm_0.9.1'}",
        "extras: {enabled: false, job: {image: {repository: vllm/vllm-openai, tag: v0.8.5}}}",
    ],
)
def test_the_image_of_a_part_that_is_off_or_for_another_device_says_nothing_certain(sibling: str):
    assert versions(f"{sibling}\ngpu:\n  {ARGS}\n") == [(None, True)]


@pytest.mark.parametrize(
    "off",
    [
        "benchmark: {image: 'vllm/vllm-openai:v0.8.5', enabled: false}",
        "cpu: {image: 'public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.8.5'}",
    ],
)
def test_an_image_beside_one_that_is_off_is_the_only_one(off: str):
    assert versions(f"{off}\nimages: {{vllm: 'vllm/vllm-openai:v0.9.1'}}\ngpu:\n  {ARGS}\n") == [("0.9.1", False)]


def test_the_image_of_amds_beside_the_arguments_is_theirs():
    text = f"vllm:\n  image: 'rocm/vllm:rocm6.4.1_vllm_0.9.1'\n  {ARGS}\n"
    assert versions(text) == [("0.9.1", False)]
