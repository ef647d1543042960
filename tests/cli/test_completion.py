"""What the shell is offered, and that every command is known everywhere."""

from __future__ import annotations

import shlex

import pytest
from cli.running import process, run
from click.shell_completion import ShellComplete

from kvplan.cli.app import COMPLETE, NAME, Runnable, build
from kvplan.cli.command import MODULES, load
from kvplan.cli.completion import SHELLS


def offered(*words: str) -> list[str]:
    *before, word = words
    return [item.value for item in ShellComplete(build(), {}, NAME, COMPLETE).get_completions(before, word)]


def test_commands_and_flags_are_completed():
    assert offered("co") == ["compare", "completion"]
    assert set(MODULES) <= set(offered(""))
    assert offered("size", "--kv") == ["--kv-dtype"]
    assert "--gpu" in offered("fit", "-")


def test_values_are_completed():
    assert "llama-3-70b" in offered("size", "llama-3-7")
    assert "h100-sxm" in offered("fit", "--gpu", "h100")
    assert "auto" in offered("fit", "--gpu", "")
    assert {"fp8", "fp8_per_token_head"} <= set(offered("size", "m", "--kv-dtype", "fp8"))
    assert offered("size", "m", "--kv-dtype", "q8_0:q4_") == ["q8_0:q4_1", "q8_0:q4_0"]
    assert offered("compare", "m", "--attention", "mha,mq") == ["mha,mqa"]
    assert offered("size", "m", "--engine=id") == ["ideal"]
    assert offered("size", "m", "--format", "table,j") == ["table,json"]
    assert offered("check", "--format", "table,sa") == ["table,sarif"]
    assert offered("size", "m", "--format", "sa") == []
    assert offered("check", "--fail-on", "w") == ["warn"]
    assert offered("size", "m", "--color", "al") == ["always"]
    assert "fit" in offered("schema", "")


@pytest.mark.parametrize(
    ("name", "flag"), [(name, option.flag) for name in MODULES for option in load(name).options if option.choices]
)
def test_every_choice_is_in_the_help_and_offered(name: str, flag: str):
    (option,) = (option for option in load(name).options if option.flag == flag)
    assert all(choice in option.help for choice in option.choices)
    assert offered(name, flag, "") == list(option.choices)


def test_a_format_s_name_as_a_flag_says_how_it_is_asked_for():
    assert run("check", "--sarif").err.endswith("hint: --format sarif\n")
    assert run("size", "llama-3-8b", "--csv").err.endswith("hint: --format csv\n")
    assert "--format" not in run("size", "llama-3-8b", "--sarif").err


def test_file_names_where_nothing_known_begins_so():
    (item,) = ShellComplete(build(), {}, NAME, COMPLETE).get_completions(["size"], "./my")
    assert (item.value, item.type) == ("./my", "file")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_ask_kvplan(shell: str):
    assert f"{COMPLETE}={shell}_complete" in run("completion", shell).out


def test_a_shell_asks():
    asked = process(COMP_WORDS="kvplan fit --engine vl", COMP_CWORD="3", **{COMPLETE: "bash_complete"})
    assert asked == (0, "plain,vllm\n", "")


@pytest.mark.parametrize("name", MODULES)
def test_every_command_has_help_with_examples_first(name: str):
    command = load(name)
    assert command.name == name
    assert command.about == MODULES[name]
    page = run(name, "--help").out
    assert page.index("Examples") < page.index("Options")
    assert "powers of two" in page
    for option in command.options:
        assert option.flag in page


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_help_parse(name: str):
    for example in load(name).examples:
        words = shlex.split(example, comments=True)
        if words[0] == "kvplan" and ">" not in words:
            Runnable(load(name)).make_context(name, words[2:])
