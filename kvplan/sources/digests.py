"""Whether a file was made from what is there now: judged by content, as sizes and times of files say too little.

An edit may keep a file's size, and a checkout gives every file the time it was checked out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def digest(path: Path) -> str | None:
    """SHA-256 of a file, as hexadecimal digits; None for a file that can't be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def digest_of_all(root: Path, names: Iterable[str]) -> str:
    """SHA-256 of the Python and JSON files among `names`, files or folders of `root`, with their paths.

    Raises: OSError.
    """
    found = hashlib.sha256()
    for name in names:
        for path in _files(f"{root}{os.sep}{name}"):
            with open(path, "rb") as file:  # noqa: PTH123 - every start pays for this, and Path is slow
                content = file.read()
            found.update(f"{path[len(str(root)) :].replace(os.sep, '/')} {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()


def _files(path: str) -> Iterator[str]:
    """Python and JSON files: the path itself, or all below it, in the order of their names."""
    if path.endswith((".py", ".json")):
        yield path
        return
    with os.scandir(path) as entries:
        held = sorted((entry.name, entry.is_dir()) for entry in entries if entry.name != "__pycache__")
    for name, is_folder in held:
        if is_folder or name.endswith((".py", ".json")):
            yield from _files(f"{path}{os.sep}{name}")
