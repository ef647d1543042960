"""Text in any language that seems to start vLLM but isn't read, so that it is at least listed."""

from __future__ import annotations

import re

_MENTIONED = re.compile(
    r"\bvllm\s+serve\s|-m\s+(?:-\s+)?vllm\.entrypoints|\bray\.serve\.llm\b|\bbuild_openai_app\b"
    r"|(?s:\bvllm\b.*(?:--model\b|--max-model-len\b|\bmodelURL:|\bvllmConfig:|\bengine_kwargs:|\bextraArgs:))"
    r"|[\"']vllm[\"'],\s*[\"']serve[\"']"
)
"""A serve command, or settings of one: Helm values, Ray's, scripts in a ConfigMap, lists of words in Python."""

STARTS = re.compile(
    r"\s*(?:(?:exec|nohup|sudo|uv run|[A-Z_][A-Z0-9_]*=\S*)\s+)*"
    r"(?:vllm\s+serve\s|python3?\s+-m\s+vllm\.entrypoints\.|docker\s+run\s.*vllm)"
)
"""A single line that is a serve command from its beginning."""

_NAMES = ("vllm", "ray.serve.llm", "build_openai_app")
"""One of these is in every such text: they are quicker to look for."""

_HOLDS = re.compile(r"(?:^|[\s;])([A-Za-z_][A-Za-z0-9_]*)\+?=[(\"'\s]*[^\n]*\bvllm\s+serve\b", re.ASCII)


def mentions(text: str) -> bool:
    """Whether a text seems to start vLLM."""
    return any(word in text for word in _NAMES) and _MENTIONED.search(text) is not None


def holders(script: str) -> frozenset[str]:
    """Variables of a script that a serve command is put into."""
    return frozenset(match[1] for match in _HOLDS.finditer(script)) if "vllm" in script else frozenset()
