"""Digests that tell whether a file is up to date, by content, because sizes and times of files say too little.

An edit may keep a file's size, and a checkout gives every file the time of the checkout. CRC-32 is enough to notice an
edit and costs a start one millisecond; importing hashlib alone costs three.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32


def digest(path: str | Path) -> str | None:
    """CRC-32 of a file as eight hexadecimal digits; None for a file that can't be read."""
    try:
        return f"{crc32(_content(path)):08x}"
    except OSError:
        return None


def _content(path: str | Path) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - every start pays for this, and Path is slow
        return file.read()


def digest_of_all(root: Path, names: Iterable[str]) -> str:
    """CRC-32 of all Python and JSON files among `names` (files or folders in `root`), with their paths.

    Raises: OSError.
    """
    found = 0
    for name in names:
        for path in _files(f"{root}{os.sep}{name}"):
            content = _content(path)
            found = crc32(f"{path[len(str(root)) :].replace(os.sep, '/')} {len(content)}\n".encode(), found)
            found = crc32(content, found)
    return f"{found:08x}"


def _files(path: str) -> Iterator[str]:
    """Python and JSON files: the path itself, or all in the folder, sorted by name."""
    if path.endswith((".py", ".json")):
        yield path
        return
    with os.scandir(path) as entries:
        held = sorted((entry.name, entry.is_dir()) for entry in entries if entry.name != "__pycache__")
    for name, is_folder in held:
        if is_folder or name.endswith((".py", ".json")):
            yield from _files(f"{path}{os.sep}{name}")
