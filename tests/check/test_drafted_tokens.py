"""How many tokens a serve command drafts, where its configuration doesn't say so.

Source: vLLM 0.33 config/speculative.py __post_init__, _validate_suffix_decoding and _verify_args: without a number nobody
drafts but a named model whose config has n_predict, and suffix decoding, which takes its depth (24); 0.9.2, 0.11 and 0.20
alike. engine/arg_utils.py reads `--speculative-config.KEY VALUE` as one key of the JSON.
"""

from __future__ import annotations

import pytest
from check.test_serving import read

from kvplan.manifests.processes.container import Served


def served(said: str) -> Served:
    return read(f"vllm serve m {said}\n", "run.sh")


def dotted(keys: str) -> str:
    return " ".join(
        f"--speculative-config.{name} {value}" for name, value in (pair.split("=") for pair in keys.split())
    )


def written(keys: str) -> str:
    pairs = ", ".join(
        f'"{name}": {value if value.isdigit() or value == "null" else f"{chr(34)}{value}{chr(34)}"}'
        for name, value in (pair.split("=") for pair in keys.split())
    )
    return f"--speculative-config '{{{pairs}}}'"


@pytest.mark.parametrize(
    ("keys", "whose"),
    [
        ("method=mtp", "method mtp"),
        ("method=deepseek_mtp", "method deepseek_mtp"),
        ("method=eagle", "method eagle"),
        ("method=dspark", "method dspark"),
        ("method=ngram", "method ngram"),
        ("method=ngram prompt_lookup_max=4", "method ngram"),
        ("method=ngram num_speculative_tokens=null", "method ngram"),
        ("model=ngram", "method ngram"),
        ("prompt_lookup_max=4", "a draft"),
        ("method=eagle3 model=d", "a draft model"),
    ],
)
@pytest.mark.parametrize("form", [written, dotted])
def test_no_number_is_refused(keys: str, whose: str, form):
    (command,) = served(form(keys)).commands
    errors = [remark.text for remark in command.remarks if remark.level == "error"]
    assert errors == [f"vLLM refuses {whose} without num_speculative_tokens"]


def test_nothing_at_all_is_refused():
    (command,) = served("--speculative-config '{}'").commands
    assert [remark.level for remark in command.remarks] == ["error"]


@pytest.mark.parametrize(
    ("keys", "tokens"),
    [
        ("method=suffix", 24),
        ("method=suffix suffix_decoding_max_tree_depth=8", 8),
        ("method=suffix num_speculative_tokens=null", 24),
        ("method=mtp num_speculative_tokens=2", 2),
        ("method=ngram num-speculative-tokens=3", 3),
        ("method=eagle model=d num_speculative_tokens=3", 3),
    ],
)
@pytest.mark.parametrize("form", [written, dotted])
def test_a_number(keys: str, tokens: int, form):
    (command,) = served(form(keys)).commands
    assert command.layer[("flags", "num_speculative_tokens")].value == tokens
    assert not [remark for remark in command.remarks if remark.level == "error"]


@pytest.mark.parametrize("form", [written, dotted])
def test_a_number_that_only_the_models_files_say(form):
    found = served(form("method=mtp model=m"))
    assert not found.commands
    assert "write the number out" in found.unread[0].why


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("model=d", "takes the draft's own number"),
        ("method=dflash model=d", "takes the draft's own number"),
        ("method=medusa model=d", "takes the draft's own number"),
        (
            "model=m num_speculative_tokens=1",
            'Add "method": "mtp"',
        ),  # hf_config_override makes deepseek_v3 deepseek_mtp
        ("model=m", 'Add "method": "mtp"'),
    ],
)
def test_drafts_that_the_models_files_decide_about(keys: str, said: str):
    found = served(written(keys))
    assert not found.commands
    assert said in found.unread[0].why
