"""A word of a command, as every reader of commands hands it on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """One word. line: of the file it stands in. unknown: what in it only a shell could resolve; None when all is known.

    script, script_line: the same text as a shell should read it, where a file breaks its lines otherwise. whose: who
    could say what is unknown, as the end of a sentence.
    """

    text: str
    line: int
    unknown: str | None = None
    script: str = ""
    script_line: int = 0
    whose: str = "which only the shell knows"
