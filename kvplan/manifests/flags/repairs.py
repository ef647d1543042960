"""Words that vLLM's parser refuses in every release, each with the words that were meant and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kvplan.engines.vllm.tables.flags import SHORT
from kvplan.manifests.flags.command import Arguments
from kvplan.manifests.places import Place
from kvplan.manifests.shell.parser import Word

_FUSED = re.compile(r"(--[A-Za-z][A-Za-z0-9_-]*)[ \t]+(\S.*)", re.DOTALL)
"""`--max-model-len 8192` as one word."""
_PADDED = re.compile(r"\s+(-{1,2}[A-Za-z].*)", re.DOTALL)
"""A flag behind a blank, which an escaped one leaves there: `\\ --max-num-seqs`."""
_GLUED = re.compile(r"-([a-z]{2,})(\d+)", re.ASCII)
"""`-tp2`: argparse takes a value without a blank only after a name of one letter."""


def meant(words: Iterable[Word], found: Arguments) -> Iterator[Word]:
    """The words, those that can't be read as they stand replaced by those that were meant, which is remarked as an error."""
    for word in words:
        if word.unknown is not None:
            yield word
            continue
        text = word.text
        if match := _PADDED.fullmatch(text):
            text = match[1]
            why = f"begins with a blank, and vLLM doesn't recognise it: write {text.split()[0]}{_AT_THE_END}"
            _refused(word, why, found)
        if match := _FUSED.fullmatch(text):
            value = match[2].strip()
            _refused(
                word, f"is one argument, which vLLM doesn't recognise: write {match[1]}={value} or two items", found
            )
            yield from (Word(match[1], word.line), Word(value, word.line))
        elif (match := _GLUED.fullmatch(text)) and match[1] in SHORT:
            _refused(word, f"is one argument, which vLLM doesn't recognise: write -{match[1]} {match[2]}", found)
            yield from (Word(f"-{match[1]}", word.line), Word(match[2], word.line))
        else:
            yield word if text is word.text else Word(text, word.line)


_AT_THE_END = "; a `\\` that isn't the last sign of its line keeps the blank after it"


def _refused(word: Word, why: str, found: Arguments) -> None:
    found.remark("bad-argument", f"{word.text!r} {why}", Place(found.file, word.line), "error")
