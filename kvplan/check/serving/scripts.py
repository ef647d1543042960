"""Shell scripts, or any text with `vllm serve` lines in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kvplan.check.budget import Unread
from kvplan.check.serving.command import Configured
from kvplan.check.serving.containers import Container, Served, served_by
from kvplan.check.serving.words import Word, commands, surrounded
from kvplan.check.tree import Tree, beside, read_text
from kvplan.errors import BadFile

_HELM = re.compile(r"\{\{-?\s*(?:[^}]*\.(?:Values|Release|Chart|Capabilities)\b|(?:include|define|template) \")")


def served(text: str, file: str, tree: Tree) -> Served:
    """What the script serves: one command a line, called by its line."""
    found = Served()
    for words, variables in surrounded(text):
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


_STARTED = re.compile(r"\s*ExecStart(?:Pre|Post)?\s*=\s*[-@:+!|]*")


def started(unit: str) -> str:
    """A systemd unit as a script: what it executes, on the same lines."""
    out: list[str] = []
    going = False
    for line in unit.split("\n"):
        match = _STARTED.match(line)
        kept = line[match.end() :] if match is not None else line if going else ""
        out.append(kept)
        going = bool(kept) and kept.rstrip().endswith("\\")
    return "\n".join(out)


_INSTRUCTION = re.compile(r"\s*(FROM|ENTRYPOINT|CMD)\s+(.*)", re.IGNORECASE | re.DOTALL)


def built(text: str, file: str, tree: Tree) -> Served:
    """What a Dockerfile's image serves: its last entry point and command, over the image it is built from."""
    last: dict[str, list[Word]] = {}
    image, line = "", 1
    for first, instruction in _instructions(text):
        match = _INSTRUCTION.fullmatch(instruction)
        if match is None:
            continue
        name, rest = match[1].upper(), match[2]
        if name == "FROM":
            words = [word.text for command in commands(rest) for word in command if not word.text.startswith("--")]
            image, last = words[0] if words else "", {}
        elif name in {"ENTRYPOINT", "CMD"}:
            last[name], line = _said(rest, first), first
            if name == "ENTRYPOINT":
                last.pop("CMD", None)
    started = [*last.get("ENTRYPOINT", []), *last.get("CMD", [])]
    if not started:
        return Served()
    container = _process(started, file, tree, {})
    return served_by(
        replace(container, name=file.rpartition("/")[2], line=line, image=image, entrypoint="ENTRYPOINT" in last)
    )


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    held, first = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        first = first if held else number
        held += line.rstrip()
        if held.endswith("\\"):
            held = held[:-1] + "\\\n"
            continue
        yield first, held
        held = ""
    if held:
        yield first, held


def _said(rest: str, line: int) -> list[Word]:
    """Words of the JSON form, or a shell's script."""
    try:
        items = json.loads(rest.replace("\\\n", " "))
    except ValueError:
        items = None
    if isinstance(items, list):
        return [Word(str(item), line) for item in items]
    return [Word("sh", line), Word("-c", line), Word(rest, line)]


def templates(text: str, file: str) -> Iterator[Unread]:
    """A chart's template, which only Helm can turn into a manifest; a chat template isn't one."""
    from kvplan.check.budget import Place

    for number, line in enumerate(text.splitlines(), 1):
        if _HELM.search(line):
            why = "a template: render it first (helm template CHART | kvplan check -)"
            yield Unread(file, why, Place(file, number))
            return
