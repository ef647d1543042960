"""Which kind of file a text is: by the file's name, or on standard input by how it begins."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["yaml", "dockerfile", "unit", "script"]

STDIN = "-"
_BY_NAME: tuple[tuple[tuple[str, ...], Kind], ...] = (((".yaml", ".yml", ".json"), "yaml"), ((".service",), "unit"))
_SHELLS = (".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".sub")
_INTERPRETED = re.compile(r"#!.*\b(?:ba|da|z|k|a)?sh\b")
_BUILT = re.compile(r"(?:\s*(?:#.*|ARG\s.*)?\n)*FROM\s+\S", re.IGNORECASE)
_SECTION = re.compile(r"(?:\s*(?:[#;].*)?\n)*\[(?:Unit|Service|Install)\]\s*$", re.MULTILINE)
_COMMAND = re.compile(
    r"(?:\s*(?:#.*)?\n)*(?:[A-Z_][A-Z0-9_]*=\S*\s+)*(?:vllm\s+serve|python3?\s+-m\s+vllm\.|docker\s+run|podman\s+run)\s"
)


def is_dockerfile(name: str) -> bool:
    """Whether a file's name says that images are built from it."""
    return name.startswith(("Dockerfile", "Containerfile")) or name.endswith((".Dockerfile", ".dockerfile"))


def kind_of(name: str, text: str) -> Kind:
    """What a file holds, or what is piped in: YAML where nothing says otherwise."""
    if name != STDIN:
        kind = next((kind for endings, kind in _BY_NAME if name.endswith(endings)), None)
        return kind or ("dockerfile" if is_dockerfile(name.rpartition("/")[2]) else "script")
    if text.startswith("#!") or _COMMAND.match(text):
        return "script"
    if _BUILT.match(text):
        return "dockerfile"
    return "unit" if _SECTION.match(text) else "yaml"


def is_shells(name: str, text: str) -> bool:
    """Whether a text is a shell's script, and no other program."""
    return name.endswith(_SHELLS) or _INTERPRETED.match(text) is not None
