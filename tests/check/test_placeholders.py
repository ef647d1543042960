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
