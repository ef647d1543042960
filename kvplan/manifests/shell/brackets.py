"""Where a bracket that opens in a shell's text closes again."""

from __future__ import annotations

import re


def closing(text: str, start: int, opening: str) -> int:
    """End of the text up to and including the bracket that closes the one at `start`; all of it when none does."""
    depth, quote = 0, ""
    for match in _BRACKETS[opening].finditer(text, start):
        char = match[0]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == opening:
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)


_BRACKETS = {"(": re.compile("['\"()]"), "{": re.compile("['\"{}]")}
