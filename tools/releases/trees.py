"""Syntax trees of one release's files. Nothing is imported from it."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

Version = tuple[int, int, int]
"""A release."""


def trees(folder: Path, *files: str) -> Iterator[ast.AST]:
    """Nodes of those of the files that the release has."""
    for file in files:
        for path in sorted(folder.glob(file)):
            yield from running(ast.parse(path.read_text(encoding="utf-8")))


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes in the order of ast.walk, without what only type checkers see."""
    waiting = deque((tree,))
    while waiting:
        node = waiting.popleft()
        yield node
        checked = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        waiting.extend(node.orelse if checked else ast.iter_child_nodes(node))


def bases_of(node: ast.ClassDef) -> list[str]:
    """Names of a class's bases. A base made from another class by a function counts as that class."""
    return [name for base in node.bases for name in named_in(base)]


def named_in(base: ast.expr) -> list[str]:
    """Name of a class, or of the classes in a call."""
    each = base.args if isinstance(base, ast.Call) else [base]
    return [name for one in each if (name := getattr(one, "id", getattr(one, "attr", "")))]


def alias(node: ast.AST) -> tuple[str, list[str]] | None:
    """A name that an assignment gives to a class, or to what a function makes from one, and the class's own name."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return None
    names = named_in(node.value)
    return (node.targets[0].id, names) if names and re.fullmatch(r"_\w+Base", node.targets[0].id) else None


def constants(node: ast.AST) -> list:
    """Literals of a tuple or list."""
    return [each.value for each in getattr(node, "elts", ()) if isinstance(each, ast.Constant)]


def literals(folder: Path, name: str) -> set[str]:
    """Members of `NAME = Literal[...]` in the configuration."""
    found: set[str] = set()
    for node in trees(folder, "config.py", "config/*.py"):
        if isinstance(node, ast.Assign) and name in {getattr(target, "id", "") for target in node.targets}:
            found |= {str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
    return found
