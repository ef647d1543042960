"""What a hint says to type can be typed: a flag of one of kvplan's own plans, or, called so, one of vLLM's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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
