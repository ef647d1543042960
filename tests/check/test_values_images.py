"""Which image Helm values give their arguments, wherever they name it."""

from __future__ import annotations

import pytest
from check.test_installs import said
from check.test_serving import read

ARGS = "args: [--model, m, --max-model-len, '8192']"


@pytest.mark.parametrize(
    ("values", "release"),
    [
        (f"image: {{repository: vllm/vllm-openai, tag: v0.10.1}}\n{ARGS}", "0.10.1"),
        (f"image: {{registry: docker.io, repository: vllm/vllm-openai, tag: v0.10.1}}\n{ARGS}", "0.10.1"),
        (f"image: {{name: vllm/vllm-openai, tag: v0.10.1}}\n{ARGS}", "0.10.1"),
        (f"image: vllm/vllm-openai\nimageTag: v0.10.1\n{ARGS}", "0.10.1"),
        (f"imageRepository: vllm/vllm-openai\nimageTag: v0.10.1\n{ARGS}", "0.10.1"),
        (f"app: {{name: v, image: 'vllm/vllm-openai:v0.10.1'}}\n{ARGS}", "0.10.1"),
        (f"vllm: {{image: {{repository: vllm/vllm-openai, tag: v0.10.1}}}}\nserver: {{{ARGS}}}", "0.10.1"),
        (f"global: {{vllmImage: 'vllm/vllm-openai:v0.10.1'}}\n{ARGS}", "0.10.1"),
        (f"images: {{vllm: 'vllm/vllm-openai:v0.10.1', router: 'x/router:v3'}}\n{ARGS}", "0.10.1"),
        (f"images: {{vllm: {{repository: vllm/vllm-openai, tag: v0.10.1}}}}\nserver: {{{ARGS}}}", "0.10.1"),
        (f"image: {{repository: x/llm, tag: vllm0.10.1}}\n{ARGS}", "0.10.1"),
        # the first has its own, and the second what is left
        (f"g: {{vllmImage: 'vllm/vllm-openai:v0.10.1'}}\na: {{image: 'vllm/vllm-openai:v0.9.2', {ARGS}}}\nb: {{{ARGS}}}", "0.10.1"),
    ],
)  # fmt: skip
def test_an_image_that_is_the_only_one(values: str, release: str):
    assert said(read(f"{values}\n").commands)[-1] == (release, False)


@pytest.mark.parametrize(
    "values",
    [
        f"image: {{repository: vllm/vllm-openai, tag: ''}}\n{ARGS}",
        f"image: {{repository: vllm/vllm-openai}}\n{ARGS}",
        f"image: {{repository: x/llm, tag: '1.2'}}\n{ARGS}",
        f"images: {{a: 'vllm/vllm-openai:v0.10.1', b: 'vllm/vllm-openai:v0.9.2'}}\n{ARGS}",
    ],
)
def test_an_image_that_nobody_can_tell(values: str):
    assert said(read(f"{values}\n").commands) == [(None, True)]


@pytest.mark.parametrize(
    "values", [ARGS, f"image: vllm/vllm-openai:latest\n{ARGS}", f"router: {{image: 'x/router:v3'}}\n{ARGS}"]
)
def test_values_that_say_nothing_of_an_image(values: str):
    assert said(read(f"{values}\n").commands) == [(None, False)]
