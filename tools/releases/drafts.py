"""Models that a release drafts for with prediction layers of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from releases.trees import trees

OVERRIDE = "hf_config_override"
"""The function that turns the model's config into its draft's."""


def itself_of(folder: Path) -> set[str]:
    """Types and classes that the function checks before it rewrites a config."""
    return {
        str(each.value)
        for node in trees(folder, "config.py", "config/*.py")
        if isinstance(node, ast.FunctionDef) and node.name == OVERRIDE
        for compared in _compared(node)
        for each in ast.walk(compared)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def _compared(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """What a type or class is compared with, including the sets that replace a config's own class."""
    for node in ast.walk(function):
        for test in ast.walk(node.test) if isinstance(node, ast.If) else ():
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.In):
                yield from (test.left, *test.comparators)
            elif isinstance(test, ast.Set):
                yield test
