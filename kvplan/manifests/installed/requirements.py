"""What files of requirements say of vLLM, where they are here.

Source: pip's requirements file format (comments, continued lines, options).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from kvplan.manifests.installed import pins
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.shell.word import Word

_PLAIN = (".txt", ".in", ".pip")
"""Endings of files in pip's format."""
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NESTED = re.compile(r"(?:-r|--requirement)[\s=]*(.+)")
_BRINGS = re.compile(
    r"vllm|\[[^\]]*\b(?:llm|all|gpu|full|inference)\b|^(?:bigcodebench|evalplus|mineru|olmocr|openrlhf|verl|areal)\b|^-e|^\.|/",
    re.ASCII | re.IGNORECASE,
)
"""Requirements that may bring vLLM without naming its release: what has it for an extra, what depends on it, folders, addresses."""
MOST_NESTED = 8


def said(path: Word, asking: Pin, find: Callable[[str], str | None], depth: int = 0) -> Pin | None:
    """What a file says of vLLM. asking: the command, for a file that leaves it open; None for one that says nothing."""
    text = find(path.text) if path.unknown is None and path.text.endswith(_PLAIN) else None
    if text is None or depth > MOST_NESTED:
        return asking
    found: Pin | None = None
    for line in _lines(text):
        nested = _NESTED.fullmatch(line)
        if nested is not None:
            folder = path.text.rpartition("/")[0]
            name = f"{folder}/{nested[1]}" if folder else nested[1]
            found = said(replace(path, text=name), asking, find, depth + 1) or found
        elif (pin := pins.requirement(Word(line, asking.line))) is not None:
            found = pin if pin.kind == "any" else replace(pin, said=f"{pin.said} of {path.text}")
        elif not _OPTION.match(line) and _BRINGS.search(line) and (found is None or found.kind == "any"):
            found = asking
    return found


_OPTION = re.compile(r"--?(?!e\b|editable)")


def _lines(text: str) -> Iterator[str]:
    """Its requirements and options, without hashes and comments."""
    for line in text.replace("\\\n", " ").splitlines():
        plain = _COMMENT.sub("", line).partition(" --hash")[0].strip()
        if plain:
            yield plain
