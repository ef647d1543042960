"""Serve commands in what teams already have: manifests, values, compose files, scripts, vLLM's own --config YAML."""

from __future__ import annotations

from kvplan.check.budget import Place, Unread
from kvplan.check.serving import names
from kvplan.check.serving.arguments import read_config
from kvplan.check.serving.command import ENDLESS, Arguments, CantRead, Command, Given
from kvplan.check.serving.containers import Served
from kvplan.check.serving.meaning import layer_of
from kvplan.check.serving.nodes import Node, documents
from kvplan.check.tree import Tree, read_text

__all__ = ["ENDLESS", "Command", "Given", "Served", "parse", "read"]


def read(name: str, tree: Tree) -> Served:
    """What the file `name` serves.

    Raises: BadFile where it can't be opened or is neither YAML nor a script.
    """
    return parse(read_text(tree, name), name, tree)


def parse(text: str, name: str, tree: Tree) -> Served:
    """The same for its text."""
    from kvplan.check.serving import scripts

    if name.endswith((".yaml", ".yml", ".json")) or name == STDIN:
        template = tuple(scripts.templates(text, name))
        return Served(unread=template) if template else _yaml(documents(text, name), name, tree)
    return scripts.served(text, name, tree)


STDIN = "-"


def _yaml(found: tuple[Node, ...], name: str, tree: Tree) -> Served:
    from kvplan.check.serving import compose, helm, kubernetes

    objects = [document for document in found if kubernetes.is_manifest(document) or document.said("kind") == "List"]
    served = kubernetes.served(objects, name) if objects else Served()
    for item in objects:
        if item.said("kind") == "VLLMRuntime":
            served += helm.runtime(item, name)
    for document in found:
        if document in objects:
            continue
        if compose.is_compose(document):
            served += compose.served(document, name, tree)
        elif _is_config(document):
            served += _config(document, name)
        else:
            served += helm.served(document, name)
    return served


def _is_config(document: Node) -> bool:
    """Whether a document is a `--config` file of vLLM: a model and nothing but flags."""
    keys = {key.replace("_", "-") for key in document.keys}
    return "model" in keys and keys <= names.KNOWN


def _config(document: Node, name: str) -> Served:
    """The serve command that `vllm serve --config` makes of the file."""
    stem = name.rpartition("/")[2].rpartition(".")[0] or name
    place = Place(name, document.line)
    arguments = Arguments(name)
    read_config(document, name, 1, arguments)
    try:
        layer = layer_of(arguments)
    except CantRead as error:
        return Served(unread=(Unread(stem, str(error), error.place),))
    return Served((Command(stem, place, layer, tuple(arguments.remarks)),))
