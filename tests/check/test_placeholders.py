"""Values that another program puts in before anything runs: nothing to plan, and nothing that vLLM would refuse."""

from __future__ import annotations

import pytest
from check.test_idioms import POD, remarks, unread
from check.test_serving import read

PLACEHOLDERS = [
    "${LEN}", "${LEN:=8192}", "$LEN", "${vLLM.len}", "{max_model_len}", "<MAX_LEN>", "__LEN__", "@LEN@", "{{ max_len }}", "<your-len>",
]  # fmt: skip


@pytest.mark.parametrize("value", PLACEHOLDERS)
def test_a_length_that_is_put_in(value: str):
    for args in (f'"--max-model-len={value}"', f'--max-model-len, "{value}"'):
        ((_, why),) = unread(POD.format(f"args: [--model, m, {args}]"))
        assert why == f"its --max-model-len is {value}, a template: render it first"
    ((_, why),) = unread(POD.format(f'args: [--model, "{value}"]'))
    assert why == f"its --model is {value}, a template: render it first"


@pytest.mark.parametrize("value", PLACEHOLDERS)
def test_what_a_plan_does_not_need(value: str):
    assert not remarks(POD.format(f'args: [--model, m, --served-model-name, "{value}", "--api-key={value}"]'))


@pytest.mark.parametrize("value", ["${ARGS}", "--${NAME}", "--${NAME}=4", "<FLAGS>"])
def test_words_that_may_be_flags(value: str):
    ((level, text),) = remarks(POD.format(f'args: [--model, m, "{value}"]'))
    assert level == "warn"
    assert "may add flags" in text


@pytest.mark.parametrize("image", ["${IMAGE}", "{{ image }}", "<VLLM_IMAGE>", "registry/x:${TAG}"])
def test_an_image_that_is_put_in(image: str):
    pod = POD.replace("vllm/vllm-openai:v0.11.0", image.replace("{", "{{").replace("}", "}}"))
    ((_, why),) = unread(pod.format("args: [--model, m]"))
    assert why == f"its image is {image}, a placeholder: put the image's name in first"


def test_a_reference_of_a_pod_s():
    ((_, why),) = unread(POD.format("args: [--model, $(MODEL)]"))
    assert why == "its --model is $(MODEL), whose value doesn't stand in this file"


TRUSS = """\
base_image: {image: "vllm/vllm-openai:v0.11.0"}
docker_server: {start_command: "%s", server_port: 8000}
resources: {accelerator: "H100:2"}
model_name: llama
"""


def test_a_start_command_of_baseten_s():
    (command,) = read(TRUSS % "vllm serve m --max-model-len 8192 -tp 4", "config.yaml").commands
    assert (command.name, command.version, command.layer["gpu",].value) == ("llama", "0.11.0", "H100")
    assert [each.text for each in command.remarks] == [
        "tensor parallel size 4 needs 4 GPUs, and the container asks for 2"
    ]
    ((line, why),) = unread(TRUSS % "sh -c /app/data/do.sh", "config.yaml")
    assert (line, why) == (2, "what its docker_server.start_command 'sh -c /app/data/do.sh' serves doesn't stand here")


def test_in_a_config_file():
    ((line, why),) = unread("model: m\nmax-model-len: ${LEN}\n", "c.yaml")
    assert (line, why) == (2, "its --max-model-len is ${LEN}, a template: render it first")


@pytest.mark.parametrize(
    "flag",
    [
        '--limit-mm-per-prompt={"image":{"count":0}}',
        '--speculative-config={"method":"ngram","num_speculative_tokens":3}',
        '--hf-overrides={"rope_scaling":{"type":"yarn"}}',
        "--served-model-name=a@b",
        "--model=org/a__b",
    ],
)
def test_what_is_none(flag: str):
    assert read(POD.format(f"args: [--model, m, '{flag}']")).commands
