"""Shell scripts, or any text with `vllm serve` lines in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kvplan.errors import BadFile
from kvplan.manifests.flags.command import Configured
from kvplan.manifests.installed.installs import Installed, within
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.installed.targets import built_for
from kvplan.manifests.installed.touching import SHELLS
from kvplan.manifests.mentions import holders, mentions
from kvplan.manifests.places import Place, Unread
from kvplan.manifests.processes import apptainer, docker, slurm
from kvplan.manifests.processes.container import Container, Served
from kvplan.manifests.processes.folders import OWN, of_commands
from kvplan.manifests.processes.same_gpu import remarked
from kvplan.manifests.processes.serving import gathers, served_by
from kvplan.manifests.shell.parser import Script, Word, surrounded
from kvplan.manifests.tree import Tree, beside, read_text

_HELM = re.compile(r"\{\{-?\s*(?:[^}]*\.(?:Values|Release|Chart|Capabilities)\b|(?:include|define|template) \")")


def served(
    text: str, file: str, tree: Tree, known: Mapping[str, str] | None = None, folder: str | None = OWN
) -> Served:
    """What the script serves: one command a line, called by its line. known: variables that it starts with. folder: where it starts."""
    job = slurm.header(text)
    beside_it = Installed(find=partial(requirements, file, tree))
    script = surrounded(text, 1, known, installed=beside_it, exported=slurm.exported(job))
    held = holders(text)
    nodes: int | None = 1
    found: list[Served] = []
    named, target = _named(script, file, tree), built_for(script.commands)
    where = of_commands(script, folder, text)
    for (words, variables, installed), here in zip(script.commands, where, strict=True):
        if gathers(words):  # from here on
            nodes = None
        process = replace(process_of(words, file, tree, {**(known or {}), **variables}), folder=here)
        process = slurm.batch(job, replace(process, nodes=nodes, installed=installed, named=named, built=target))
        each = served_by(process)
        if each == Served() and held and (source := _run(words)) is not None and _names(source) & held:
            each = Served(
                unread=(Unread(process.name, f"it runs {source}, which only the shell knows", process.place),)
            )
        found.append(each)
    found = list(remarked(script, text, found))
    for line, body in script.heredocs:
        if mentions(body):
            why = "a here-document that seems to start vLLM, which kvplan doesn't read in a script"
            found.append(Served(unread=(Unread(f"line {line}", why, Place(file, line)),)))
    return Served(
        tuple(command for each in found for command in each.commands),
        tuple(unread for each in found for unread in each.unread),
    )


def requirements(file: str, tree: Tree, path: str, folder: str) -> str | None:
    """The text of a file of requirements that stands beside a script, which it names from its own folder."""
    if folder or path.startswith(("/", "~")):
        return None
    try:
        return read_text(tree, beside(file, path))
    except BadFile:
        return None


def _named(script: Script, file: str, tree: Tree) -> dict[str, Container]:
    """Containers and files that commands of a script give names to; not those that several images have.

    One that a command installs vLLM in has a release that nobody can tell.
    """
    found: dict[str, Container] = {}
    for words, variables, _ in script.commands:
        process = process_of(words, file, tree, variables)
        for name, made in (*docker.named(words, process), *apptainer.named(words, replace(process, named=found))):
            same = name not in found or found[name].image == made.image
            found[name] = made if same else replace(made, image=name, release=Pin(name, made.line, "unclear"))
    for words, _, _ in script.commands:
        pin = within(words)
        for entered in {word.text for word in words} & found.keys() if pin is not None else ():
            found[entered] = replace(found[entered], release=pin)
    return found


def _run(words: Sequence[Word]) -> str | None:
    """What a script runs where only the shell knows what that is: `$CMD`, `eval "$CMD"`, `bash -c "$CMD"`."""
    first = words[0]
    if first.unknown is not None:
        return first.text
    runs = first.text == "eval" or first.text.rpartition("/")[2] in SHELLS
    return next((word.text for word in words[1:] if word.unknown is not None), None) if runs else None


def _names(source: str) -> set[str]:
    """Variables in a text that wasn't resolved."""
    return set(re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", source))


def process_of(words: list[Word], file: str, tree: Tree, variables: Mapping[str, str]) -> Container:
    """The process of a command, called by its line; it finds files by their paths from here, or beside its own."""
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
    for number, line in enumerate(text.splitlines(), 1):
        if _HELM.search(line):
            why = "a template: render it first (helm template CHART | kvplan check -)"
            yield Unread(file, why, Place(file, number))
            return
