"""A progress line on a terminal's stderr for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from typing import Self

PATIENCE_S = 1.0
BAR = 24
WIDEST = 99


class Progress:
    """`[########................] 37 of 163 files`, drawn after a second and wiped away at the end.

    Nothing is written where stderr is no terminal.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write(" " * self._shown + "\r")

    def draw(self, done: float, words: str) -> None:
        """Show that a share of the work, 0 to 1, is done. words: what comes next, or how much that is."""
        if time.monotonic() - self._started < PATIENCE_S or sys.stderr is None or not sys.stderr.isatty():
            return
        filled = int(BAR * done)
        line = f"[{'#' * filled}{'.' * (BAR - filled)}] {words}"[:WIDEST]
        self._write(line.ljust(self._shown))
        self._shown = max(self._shown, len(line))

    def files(self, done: int, total: int) -> None:
        """Show how many files of a checkpoint have been read."""
        self.draw(done / max(total, 1), f"headers of {done:,} of {total:,} files")

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text)
        sys.stderr.flush()
