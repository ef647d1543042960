"""What a hint says to type can be typed: a flag of one of kvplan's own plans, or, called so, one of vLLM's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import run_json

from kvplan.cli.commands import compare, fit, size

PACKAGE = Path(__file__).parents[2] / "kvplan"
KNOWN = {option.flag for command in (compare, fit, size) for option in command.COMMAND.options}


def hints(path: Path) -> Iterator[str]:
    """Texts that are handed over as `hint`, the parts of one that is put together joined."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            parts = (part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant))
            yield " ".join(part for part in parts if isinstance(part, str))


@pytest.mark.parametrize("part", ["engines", "plan"])
def test_flags_in_hints_are_kvplan_s_or_called_vllm_s(part):
    unknown = [
        (path.name, flag)
        for path in (PACKAGE / part).rglob("*.py")
        for hint in hints(path)
        for flag in re.findall(r"(?<!vLLM's )(--[a-z]+(?:-[a-z]+)*)", hint)
        if flag not in KNOWN
    ]
    assert unknown == []


@pytest.mark.parametrize(
    "words",
    [
        ("llama-3.1-405b", "--gpu", "h100x8"),  # the number changes with the layout, and stays with another GPU
        ("llama-3.1-70b", "--gpu", "h100x4", "--pp", "2", "--concurrency", "200"),
        (
            "mixtral-8x7b",
            "--gpu",
            "l40s",
            "--tp",
            "2",
            "--dp",
            "2",
            "--ep",
            "4",
        ),  # experts are dealt over all ranks or none
        ("llama-3.1-70b", "--gpu", "h100", "--gpu-memory", "24GB"),  # which would be another GPU's memory too
        ("llama-3.1-8b", "--gpu", "h100", "--kv-memory", "70GiB"),
    ],
)
def test_what_is_suggested_does_what_it_says_when_it_is_typed(words):
    asked = ("fit", *words, "--ctx", "8k")
    typed = [found for found in run_json(*asked)["suggestions"] if found["change"].startswith("--")]
    assert typed
    for found in typed:
        after = run_json(*changed(asked, found["change"].split()))
        assert after["verdict"] == "fits", found
        assert f"{after['max_sequences']:,} sequence" in found["effect"], found


def changed(words: tuple[str, ...], flags: list[str]) -> list[str]:
    """A command with the flags in place of those that it has."""
    typed = list(words)
    for name, value in zip(flags[::2], flags[1::2], strict=True):
        if name in typed:
            typed[typed.index(name) + 1] = value
        else:
            typed += [name, value]
    return typed
