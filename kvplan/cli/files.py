"""Writes output files: all of them or none. Devices, pipes and /dev/stdout are written to, never replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from kvplan.errors import BadFile

_STREAMS = ("/dev/", "/proc/")
"""Folders whose files stand for open streams, even where such a stream is a regular file."""


def write_all(texts: Mapping[str, str]) -> None:
    """Write every file, or none: all are drafted beside their targets before the first target is replaced.

    Raises: BadFile.
    """
    drafts: list[tuple[str, str]] = []
    try:
        streams = {path: content for path, content in texts.items() if _is_stream(path)}
        for path, content in texts.items():
            if path not in streams:
                drafts.append((_draft(path, content), os.path.realpath(path)))
        for path, content in streams.items():
            _send(path, content)
        while drafts:
            draft, target = drafts[0]
            Path(draft).replace(target)
            drafts.pop(0)
    except OSError as error:
        raise BadFile(f"{error.filename2 or error.filename} can't be written", cause=error.strerror) from None
    finally:
        for draft, _ in drafts:
            Path(draft).unlink(missing_ok=True)


def _is_stream(path: str) -> bool:
    """Whether the path is something other than a regular file."""
    whole = os.path.abspath(path)  # noqa: PTH100 - resolving links would lose what is asked
    if whole.startswith(_STREAMS) and not whole.startswith("/dev/shm/"):  # noqa: S108 - a folder like any other
        return True
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _send(path: str, content: str) -> None:
    """Write to a stream. Nothing is created, truncated or replaced."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    with os.fdopen(handle, "wb", buffering=0) as file:
        left = memoryview(content.encode("utf-8", "backslashreplace"))
        try:
            while left:
                left = left[file.write(left) or 0 :]
        except OSError as error:
            raise BadFile(f"{path} can't be written", cause=error.strerror) from None


def _draft(path: str, content: str) -> str:
    """A finished draft beside the file, with the mode that the file has or would get."""
    import tempfile

    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise BadFile(f"{path} can't be written", cause="it is a folder")
    if not target.parent.is_dir():
        raise BadFile(f"{path} can't be written", cause=f"there is no folder {target.parent}")
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n", errors="backslashreplace") as file:
            file.write(content)
        Path(draft).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
    return draft


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
