"""The terminal or file that a page is printed on. rich finds out what it can display."""

from __future__ import annotations

import os
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100
NARROWEST_PAGE = 40


class Canvas(NamedTuple):
    """A stream, or None for a UTF-8 file. colour: always, never, or auto for rich to decide.

    auto follows NO_COLOR, FORCE_COLOR, TERM and whether the stream is a terminal.
    """

    stream: TextIO | None = None
    colour: str = "auto"

    def console(self) -> Console:
        """A console of at most 100 columns. A file or pipe has exactly 100, whatever the size of a window."""
        from rich.console import Console

        stream = self.stream or StringIO()
        plain = self.colour == "never" or (self.colour == "auto" and bool(os.environ.get("NO_COLOR")))
        page = Console(
            file=stream,
            force_terminal=True if self.colour == "always" else None if self.stream else False,
            color_system=None if plain else "standard" if self.colour == "always" else "auto",
            no_color=plain,
            markup=False,
            emoji=False,
            highlight=False,
            force_jupyter=False,
            legacy_windows=False,
        )
        asked = page.width if stream.isatty() or os.environ.get("COLUMNS") else WIDTH
        page.width = max(NARROWEST_PAGE, min(WIDTH, asked))
        return page
