"""What vLLM leaves to the Transformers library, and to which major version of it.

Source: Requires-Dist of vLLM's wheels.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.interfaces import BY_LIBRARY
from kvplan.engines.vllm.tables.taken import has, taken
from kvplan.engines.vllm.tables.versions import Version

FIFTH: Version = (0, 24, 0)
"""The first release that requires Transformers 5 (5.5.3); those of 0.20 to 0.23 take 4.56 too."""


def by_library(model: Model, release: Version) -> bool:
    """Whether the library's code runs the model, and not a class of vLLM's own."""
    name = taken(model, release)
    return name is None or has(name, BY_LIBRARY, release)
