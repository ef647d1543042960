"""Serve commands in what teams already have: manifests, values, compose files, scripts, vLLM's own --config YAML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kvplan.manifests import names
from kvplan.manifests.arguments import read_config
from kvplan.manifests.command import Arguments, CantRead, Command
from kvplan.manifests.container import Served
from kvplan.manifests.keys import ENDLESS
from kvplan.manifests.meaning import layer_of
from kvplan.manifests.mentions import STARTS, mentions
from kvplan.manifests.nodes import Node, documents
from kvplan.manifests.said import UNSAID_VERSION, Given, Place, Unread
from kvplan.manifests.tree import Tree, read_text
from kvplan.text import on_one_line

__all__ = ["ENDLESS", "UNSAID_VERSION", "Command", "Given", "Served", "is_dockerfile", "mentions", "parse", "read"]


def read(name: str, tree: Tree) -> Served:
    """What the file `name` serves.

    Raises: BadFile where it can't be opened or is neither YAML nor a script.
    """
    return parse(read_text(tree, name), name, tree)


def parse(text: str, name: str, tree: Tree) -> Served:
    """The same for its text."""
    from kvplan.manifests import scripts, units

    if name.endswith((".yaml", ".yml", ".json")) or name == STDIN:
        template = tuple(scripts.templates(text, name))
        return Served(unread=template) if template else _on_lines(_yaml(documents(text, name), name, tree))
    if is_dockerfile(name.rpartition("/")[2]):
        return _on_lines(scripts.built(text, name, tree))
    if name.endswith(".service"):
        return _on_lines(units.served(text, name, tree))
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

STDIN = "-"


def is_dockerfile(name: str) -> bool:
    """Whether a file's name says that images are built from it."""
    return name.startswith(("Dockerfile", "Containerfile")) or name.endswith((".Dockerfile", ".dockerfile"))


def _yaml(found: tuple[Node, ...], name: str, tree: Tree) -> Served:
    from kvplan.manifests import compose, helm, kubernetes, truss

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
    return served + _elsewhere(found, name, served)


def _values(item: Node) -> Iterator[Node]:
    """Helm values in an object of Argo CD's or Flux's."""
    if item.said("kind") == "Application":
        yield from (values for node in item.walk() if (values := node.get("valuesObject")) is not None)
    elif item.said("kind") == "HelmRelease" and (values := item.get("spec", "values")) is not None:
        yield values


def _elsewhere(found: tuple[Node, ...], name: str, served: Served) -> Served:
    """Texts that seem to start vLLM, and settings of Ray Serve's, from which nothing was read."""
    known = sorted(
        {placed.place.line for command in served.commands for placed in command.layer.values()}
        | {command.place.line for command in served.commands}
        | {unread.place.line for unread in served.unread}
        | served.lines
    )
    listed: list[Unread] = []
    for document in found:
        commands = {
            id(node)
            for holder in document.walk()
            for key in _COMMANDS & holder.keys.keys()
            for node in (holder.keys[key], *holder.keys[key].items)
        }
        for node in document.walk():
            why = _why_unread(node, command=id(node) in commands)
            first, last = node.key_line, node.line + node.script.count("\n") + 1
            if why is not None and not any(first <= line <= last for line in known):
                listed.append(Unread(document.said("metadata", "name") or name, why, Place(name, node.key_line)))
    return Served(unread=tuple(listed))


_COMMANDS = frozenset({"args", "cmd", "command", "entrypoint", "exec", "run", "script", "start"})
"""Keys under which a single line is a command, and not a word about one."""


def _why_unread(node: Node, *, command: bool) -> str | None:
    """Why a node that serves something isn't read; None for one that serves nothing."""
    if node.get("engine_kwargs") is not None and node.get("model_loading_config") is not None:
        return "Ray Serve's own configuration: write its engine_kwargs as a --config file, or as a budget"
    text = node.text or ""
    starts = mentions(text + "\n") if "\n" in text.strip() else command and STARTS.match(text) is not None
    return "a text that seems to start vLLM, in a language that kvplan doesn't read here" if starts else None


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
    return Served((Command(stem, place, layer, tuple(arguments.remarks), arguments.given),))
