"""Shell scripts, or any text with `vllm serve` lines in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvplan.check.budget import Unread
from kvplan.check.serving.command import Configured
from kvplan.check.serving.containers import Container, Served, served_by
from kvplan.check.serving.words import Word, assigned, commands
from kvplan.check.tree import Tree, beside, read_text
from kvplan.errors import BadFile

_HELM = re.compile(r"\{\{-?\s*(?:[^}]*\.(?:Values|Release|Chart|Capabilities)\b|(?:include|define|template) \")")


def served(text: str, file: str, tree: Tree) -> Served:
    """What the script serves: one command a line, called by its line."""
    found, variables = Served(), assigned(text)
    for words in commands(text):
        found += served_by(_process(words, file, tree, variables))
    return found


def _process(words: list[Word], file: str, tree: Tree, variables: Mapping[str, str]) -> Container:
    line = words[0].line

    def find(path: str) -> Configured | None:
        for name in (path, beside(file, path)):
            try:
                return Configured(name, read_text(tree, name))
            except BadFile:
                continue
        return None

    return Container(f"line {line}", file, line, tuple(words), variables=variables, find=find)


def templates(text: str, file: str) -> Iterator[Unread]:
    """A chart's template, which only Helm can turn into a manifest; a chat template isn't one."""
    from kvplan.check.budget import Place

    for number, line in enumerate(text.splitlines(), 1):
        if _HELM.search(line):
            why = "a template: render it first (helm template CHART | kvplan check -)"
            yield Unread(file, why, Place(file, number))
            return
