"""Progress on a terminal: one line that is drawn over, and gone at the end."""

from __future__ import annotations

from typing import TextIO

from kvplan.verify.options import Progress, silent

_CELLS = 24


def progress_on(stream: TextIO) -> Progress:
    """Progress drawn on a stream that is a terminal; silence for anything else."""
    if not stream.isatty():
        return silent

    def draw(done: float, following: str) -> None:
        filled = round(_CELLS * done)
        line = f"[{'#' * filled}{'.' * (_CELLS - filled)}] {following}"
        stream.write("\r\x1b[K" + ("" if done >= 1 else line[:99]))
        stream.flush()

    return draw
