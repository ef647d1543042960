"""Finds serve commands in files that teams already have: manifests, Helm values, compose files, scripts, vLLM's --config YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kvplan.errors import BadFile
from kvplan.manifests.flags import names
from kvplan.manifests.flags.arguments import read_config
from kvplan.manifests.flags.command import Arguments, CantRead, Command
from kvplan.manifests.flags.layer import layer_of
from kvplan.manifests.keys import ENDLESS
from kvplan.manifests.kinds import STDIN, is_dockerfile, is_shells, kind_of
from kvplan.manifests.mentions import mentions
from kvplan.manifests.places import UNSAID_VERSION, Given, Place, Unread
from kvplan.manifests.processes.container import Served, served
from kvplan.manifests.tree import Tree, read_text
from kvplan.manifests.unseen import unseen
from kvplan.manifests.yaml_nodes import Node, documents
from kvplan.text import on_one_line

__all__ = [
    "ENDLESS", "STDIN", "UNSAID_VERSION", "Command", "Given", "Served", "is_dockerfile", "is_shells", "mentions", "parse", "read",
]  # fmt: skip


def read(name: str, tree: Tree) -> Served:
    """What the file `name` serves.

    Raises: BadFile where it can't be opened or is neither YAML nor a script.
    """
    return parse(read_text(tree, name), name, tree)


def parse(text: str, name: str, tree: Tree) -> Served:
    """The same for its text.

    Raises: BadFile.
    """
    from kvplan.manifests.formats import dockerfile, scripts, systemd

    match kind_of(name, text):
        case "yaml":
            template = tuple(scripts.templates(text, name))
            return Served(unread=template) if template else _on_lines(_of_yaml(text, name, tree))
        case "dockerfile":
            return _on_lines(dockerfile.built(text, name, tree))
        case "unit":
            return _on_lines(systemd.served(text, name, tree))
    return _on_lines(scripts.served(text, name, tree))


def _on_lines(served: Served) -> Served:
    """The same with names and reasons on one line each, and not too long: they are quoted in reports."""
    line = partial(on_one_line, word=MOST_QUOTED, most=MOST_SAID)
    return Served(
        tuple(
            replace(
                command,
                name=line(command.name),
                noted=tuple(replace(remark, text=line(remark.text)) for remark in command.noted),
                flags=tuple(
                    replace(flag, name=line(flag.name), text=None if flag.text is None else line(flag.text))
                    for flag in command.flags
                ),
            )
            for command in served.commands
        ),
        tuple(replace(unread, what=line(unread.what), why=line(unread.why)) for unread in served.unread),
    )


MOST_QUOTED, MOST_SAID = 100, 500
"""Signs of one word, and of a whole reason, that a report quotes."""


def _of_yaml(text: str, name: str, tree: Tree) -> Served:
    """What YAML serves; what only a template's holes keep from being YAML is one.

    Raises: BadFile.
    """
    try:
        return _yaml(documents(text, name), name, tree)
    except BadFile:
        hole = next((number for number, line in enumerate(text.splitlines(), 1) if _HOLE.search(line)), None)
        if hole is None:
            raise
        return Served(unread=(Unread(name, "a template: render it first", Place(name, hole)),))


_HOLE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def _yaml(found: tuple[Node, ...], name: str, tree: Tree) -> Served:
    from kvplan.manifests.formats import compose, helm, kubernetes, truss

    objects = [document for document in found if kubernetes.is_manifest(document) or document.said("kind") == "List"]
    served = kubernetes.served(objects, name) if objects else Served()
    for item in objects:
        if item.said("kind") == "VLLMRuntime":
            served += helm.runtime(item, name)
        served += sum((helm.served(node, name) for node in _values(item)), Served())
    for document in found:
        if any(document is item for item in objects):
            continue
        if compose.is_compose(document):
            served += compose.served(document, name, tree)
        elif truss.is_truss(document):
            served += truss.served(document, name)
        elif _is_config(document):
            served += _config(document, name)
        else:
            served += helm.served(document, name)
    return served + unseen(found, name, served)


def _values(item: Node) -> Iterator[Node]:
    """Helm values in an object of Argo CD's or Flux's."""
    if item.said("kind") == "Application":
        yield from (values for node in item.walk() if (values := node.get("valuesObject")) is not None)
    elif item.said("kind") == "HelmRelease" and (values := item.get("spec", "values")) is not None:
        yield values


def _is_config(document: Node) -> bool:
    """Whether a document is a `--config` file of vLLM: a model and nothing but flags."""
    keys = {names.switched(key.replace("_", "-"))[0] for key in document.keys}
    return "model" in keys and keys <= names.KNOWN


def _config(document: Node, name: str) -> Served:
    """The serve command that `vllm serve --config` makes of the file."""
    stem = name.rpartition("/")[2].rpartition(".")[0] or name
    place = Place(name, document.line)
    arguments = Arguments(name)
    try:
        read_config(document, name, 1, arguments)
        layer = layer_of(arguments)
    except CantRead as error:
        return Served(unread=(Unread(stem, str(error), error.place),))
    return served(Command(stem, place, layer, tuple(arguments.remarks), arguments.given))
