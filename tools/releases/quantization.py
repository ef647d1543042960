"""Quantization methods that a release knows, and the least compute capability for each."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from releases.trees import constants, trees


def quantizations_of(folder: Path) -> set[str]:
    """Quantization methods, from the type's literal or from the oldest releases' table."""
    names = ("QuantizationMethods", "QUANTIZATION_METHODS")
    for node in trees(folder, "model_executor/layers/quantization/__init__.py"):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if not any(getattr(target, "id", "") in names for target in targets):
            continue
        value = getattr(node, "value", None)
        if isinstance(value, ast.Dict):
            return {key.value for key in value.keys if isinstance(key, ast.Constant)}
        if isinstance(value, ast.Subscript):
            return {str(each) for each in constants(value.slice) if str(each).replace("-", "_").isidentifier()}
        if isinstance(value, ast.List):
            return {str(each) for each in constants(value)}
    return set()


def least_of_methods(folder: Path) -> set[str]:
    """`fp8 75`: each method in the table of classes, with the least capability of its class."""
    least, found = least_capabilities(folder), set()
    for node in trees(folder, "model_executor/layers/quantization/__init__.py"):
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and getattr(value, "id", None) in least:
                found.add(f"{key.value} {least[value.id]}")
    return found


def least_of_schemes(folder: Path) -> set[str]:
    """The same for the classes that compressed-tensors and Quark choose from for a linear layer."""
    least = least_capabilities(folder)
    schemes = {
        node.name
        for node in trees(folder, "model_executor/layers/quantization/*/schemes/*.py")
        if isinstance(node, ast.ClassDef)
    }
    return {f"{name} {least[name]}" for name in schemes & set(least)}


@cache
def least_capabilities(folder: Path) -> dict[str, int]:
    """The least value that get_min_capability returns, for each class that has or inherits it."""
    said: dict[str, ast.AST] = {}
    bases: dict[str, list[str]] = {}
    for node in trees(folder, "model_executor/layers/quantization/**/*.py"):
        if isinstance(node, ast.ClassDef):
            bases[node.name] = [getattr(base, "id", "") for base in node.bases]
            for each in (each for each in node.body if getattr(each, "name", "") == "get_min_capability"):
                said[node.name] = each

    def of(name: str) -> int | None:
        if name in said:
            returned = [each.value for each in ast.walk(said[name]) if isinstance(each, ast.Return)]
            known = [each.value if isinstance(each, ast.Constant) else of(called_on(each)) for each in returned]
            return min((each for each in known if each is not None), default=None)
        return next((least for base in bases.get(name, ()) if (least := of(base)) is not None), None)

    return {name: least for name in bases if (least := of(name)) is not None}


def called_on(node: ast.AST | None) -> str:
    """`Name` of `Name.method()`."""
    return getattr(getattr(getattr(node, "func", None), "value", None), "id", "")
