"""Where a run's files come from: the working tree, or (kvplan.check.git) another revision of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kvplan.errors import BadFile
from kvplan.units import MIB

MAX_BYTES = 4 * MIB
"""Of a budget, manifest or lock. 500 deployments take a tenth of a megabyte."""


class Tree(Protocol):
    """Files by the names that a person types: relative to the current folder, or absolute."""

    def path(self, name: str) -> Path:
        """Where the file or folder is on this machine; it may not exist."""


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """The files as they are."""

    def path(self, name: str) -> Path:
        """The same name."""
        return Path(name)


def read_text(tree: Tree, name: str) -> str:
    """The text of a file.

    Raises: BadFile.
    """
    from kvplan.sources.files import read_bytes

    raw = read_bytes(tree.path(name), name, MAX_BYTES)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{name} is not UTF-8 text", cause=f"byte {error.start} can't be decoded") from None


def beside(file: str, name: str) -> str:
    """`name` as it is meant in `file`: relative to the folder of that file."""
    return name if Path(name).is_absolute() else (Path(file).parent / name).as_posix()
