"""What the shell is offered, and that every command is known everywhere."""

from __future__ import annotations

import pytest
from cli.running import run

from kvplan.cli.command import MODULES, load
from kvplan.cli.completion import SCRIPTS


def offered(*words: str) -> list[str]:
    return run("__complete", *words).out.split()


def test_commands_and_flags():
    assert offered("co") == ["compare", "completion"]
    assert set(MODULES) <= set(offered(""))
    assert offered("size", "--kv") == ["--kv-dtype"]
    assert "--gpu" in offered("fit", "-")


def test_values():
    assert "llama-3-70b" in offered("size", "llama-3-7")
    assert "h100-sxm" in offered("fit", "--gpu", "h100")
    assert "auto" in offered("fit", "--gpu", "")
    assert {"fp8", "fp8_per_token_head"} <= set(offered("size", "m", "--kv-dtype", "fp8"))
    assert offered("size", "m", "--kv-dtype", "q8_0:q4_") == ["q8_0:q4_1", "q8_0:q4_0"]
    assert offered("compare", "m", "--attention", "mha,mq") == ["mha,mqa"]
    assert offered("size", "m", "--engine=id") == ["--engine=ideal"]
    assert offered("size", "m", "--format", "table,j") == ["table,json"]
    assert "fit" in offered("schema", "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_ask_kvplan(shell: str):
    assert "kvplan __complete" in run("completion", shell).out


@pytest.mark.parametrize("name", MODULES)
def test_every_command_has_help_with_examples_first(name: str):
    command = load(name)
    assert command.name == name
    assert command.about == MODULES[name]
    page = run(name, "--help").out
    assert page.index("Examples") < page.index("Flags")
    assert "powers of two" in page
    for option in command.options:
        assert option.flag in page


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_help_parse(name: str):
    import shlex

    from kvplan.cli.parse import parse

    for example in load(name).examples:
        words = shlex.split(example, comments=True)
        if words[0] == "kvplan" and ">" not in words:
            parse(load(name), words[2:])
