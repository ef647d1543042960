"""Where a run's files come from: the working tree, or (kvplan.check.git) another revision of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kvplan.errors import BadFile
from kvplan.units import MIB

MAX_BYTES = 4 * MIB
"""Of a budget, manifest or lock. 500 deployments take a tenth of a megabyte."""


_STREAMS = ("/dev/", "/proc/")
"""Where a shell puts what it pipes in, as in `kvplan check <(helm template CHART)`."""


class Tree(Protocol):
    """Files by the names that a person types: relative to the current folder, or absolute."""

    def path(self, name: str) -> Path:
        """Where the file or folder is on this machine; it may not exist."""


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """The files as they are. seen: names that were looked for, for whoever is about to write something."""

    seen: set[str] = field(default_factory=set, compare=False)

    def path(self, name: str) -> Path:
        """The same name."""
        if nameable(name):
            self.seen.add(name)
        return Path(name)


LONGEST_NAME, LONGEST_PATH = 255, 4095
"""Bytes that a file's name, and its whole path, may have on Linux and macOS."""


def nameable(name: str) -> bool:
    """Whether a file may be called that; a system asked for others answers with an error of its own."""
    raw = name.encode("utf-8", "surrogateescape")
    return b"\0" not in raw and len(raw) <= LONGEST_PATH and all(len(part) <= LONGEST_NAME for part in raw.split(b"/"))


class TooLarge(BadFile):
    """A file that is there, and has more than anyone writes by hand."""


def read_text(tree: Tree, name: str) -> str:
    """The text of a file.

    Raises: BadFile; TooLarge.
    """
    from kvplan.sources.files import read_bytes

    if not nameable(name):
        raise BadFile(f"{name[:60]!r} can't be read", cause="no file can be called that")
    path = tree.path(name)
    if path.is_file() and (size := path.stat().st_size) > MAX_BYTES:
        raise TooLarge(
            f"{name} is too large to be checked",
            cause=f"it has {size / MIB:.0f} MiB; kvplan reads {MAX_BYTES / MIB:.0f} MiB at most",
            hint="put what serves something into a file of its own",
        )
    if path.exists() and not path.is_file() and not str(path).startswith(_STREAMS):
        raise BadFile(f"{name} can't be read", cause="it is not a regular file")
    raw = read_bytes(path, name, MAX_BYTES)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{name} is not UTF-8 text", cause=f"byte {error.start} can't be decoded") from None


def beside(file: str, name: str) -> str:
    """`name` as it is meant in `file`: relative to the folder of that file."""
    return name if Path(name).is_absolute() else (Path(file).parent / name).as_posix()
