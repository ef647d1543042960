"""A progress line on a terminal's stderr for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from typing import Self

PATIENCE_S = 1.0
BAR = 30


class Progress:
    """`headers of the checkpoint [#######-----] 37 of 163 files`, drawn after a second and wiped away at the end.

    Called with the number of files done and of files in all. Nothing is written where stderr is no terminal.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._shown = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()

    def __call__(self, done: int, total: int) -> None:
        """So many of so many."""
        if time.monotonic() - self._started < PATIENCE_S or sys.stderr is None or not sys.stderr.isatty():
            return
        filled = BAR * done // max(total, 1)
        line = f"{self._what} [{'#' * filled}{'-' * (BAR - filled)}] {done:,} of {total:,} files"
        sys.stderr.write("\r" + line.ljust(self._shown))
        sys.stderr.flush()
        self._shown = max(self._shown, len(line))
