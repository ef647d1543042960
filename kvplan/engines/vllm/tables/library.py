"""What vLLM leaves to the Transformers library."""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.interfaces import BY_LIBRARY
from kvplan.engines.vllm.tables.taken import has, taken
from kvplan.engines.vllm.tables.versions import Version

FIFTH = 5
"""The major version of it whose configurations are strict about what they are given."""


def by_library(model: Model, release: Version) -> bool:
    """Whether the library's code runs the model, and not a class of vLLM's own."""
    name = taken(model, release)
    return name is None or has(name, BY_LIBRARY, release)
