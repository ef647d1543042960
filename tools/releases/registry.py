"""Model classes that a release registers, and which of them draft for another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from releases.attention import attention, placed
from releases.trees import constants, trees


def classes_of(folder: Path) -> set[str]:
    """Keys of the registry's tables. Each has a module and a class."""
    return {name for name, _ in registered_as(folder)}


def drafting_of(folder: Path) -> set[str]:
    """Keys of the registry's table for speculative decoding."""
    for node in trees(folder, "model_executor/models/registry.py"):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "_SPECULATIVE_DECODING_MODELS":
            table = next(each for each in ast.walk(node) if isinstance(each, ast.Dict))
            return {key.value for key in table.keys if isinstance(key, ast.Constant)}
    return set()


def by_library_of(folder: Path) -> set[str]:
    """Keys whose module wraps the code of Transformers."""
    return {name for name, (module, _) in placed(folder).items() if "transformers" in module.split(".")}


def unpipelined_of(folder: Path) -> set[str]:
    """Keys that are refused several pipeline stages: those missing from a list that vLLM had up to 0.6.2."""
    for node in trees(folder, "config.py"):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_PP_SUPPORTED_MODELS":
            return classes_of(folder) - set(constants(node.value))
    return attention(folder).unpipelined


def registered_as(folder: Path) -> Iterator[tuple[str, str]]:
    """Names in the registry, with the classes that they stand for."""
    return ((name, defined) for name, (_, defined) in placed(folder).items())
