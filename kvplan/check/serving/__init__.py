"""Serve commands in what teams already have: manifests, values, compose files, scripts, vLLM's own --config YAML."""

from __future__ import annotations

import re
from dataclasses import replace

from kvplan.check.budget import Place, Unread
from kvplan.check.merge import Given
from kvplan.check.serving import names
from kvplan.check.serving.arguments import read_config
from kvplan.check.serving.command import ENDLESS, Arguments, CantRead, Command
from kvplan.check.serving.containers import Served
from kvplan.check.serving.meaning import layer_of
from kvplan.check.serving.nodes import Node, documents
from kvplan.check.tree import Tree, read_text

__all__ = ["ENDLESS", "Command", "Given", "Served", "is_dockerfile", "parse", "read"]


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
        return Served(unread=template) if template else _on_lines(_yaml(documents(text, name), name, tree))
    if is_dockerfile(name.rpartition("/")[2]):
        return _on_lines(scripts.built(text, name, tree))
    if name.endswith(".service"):
        return _on_lines(scripts.served(scripts.started(text), name, tree, scripts.environment(text)))
    return _on_lines(scripts.served(text, name, tree))


def _on_lines(served: Served) -> Served:
    """The same with names and reasons on one line each: they are quoted in reports."""

    def line(text: str) -> str:
        return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))

    return Served(
        tuple(
            replace(
                command,
                name=line(command.name),
                remarks=tuple(replace(remark, text=line(remark.text)) for remark in command.remarks),
            )
            for command in served.commands
        ),
        tuple(replace(unread, what=line(unread.what), why=line(unread.why)) for unread in served.unread),
    )


STDIN = "-"


def is_dockerfile(name: str) -> bool:
    """Whether a file's name says that images are built from it."""
    return name.startswith(("Dockerfile", "Containerfile")) or name.endswith((".Dockerfile", ".dockerfile"))


def _yaml(found: tuple[Node, ...], name: str, tree: Tree) -> Served:
    from kvplan.check.serving import compose, helm, kubernetes

    objects = [document for document in found if kubernetes.is_manifest(document) or document.said("kind") == "List"]
    served = kubernetes.served(objects, name) if objects else Served()
    for item in objects:
        if item.said("kind") == "VLLMRuntime":
            served += helm.runtime(item, name)
        elif item.said("kind") == "Application":
            values = (node.get("valuesObject") for node in item.walk())
            served += sum((helm.served(node, name) for node in values if node is not None), Served())
    for document in found:
        if any(document is item for item in objects):
            continue
        if compose.is_compose(document):
            served += compose.served(document, name, tree)
        elif _is_config(document):
            served += _config(document, name)
        else:
            served += helm.served(document, name)
    return served + _elsewhere(found, name, served)


_MENTIONED = re.compile(
    r"\bvllm\s+serve\s|-m\s+vllm\.entrypoints|\bray\.serve\.llm\b|\bbuild_openai_app\b"
    r"|(?s:\bvllm\b.*(?:--model\b|--max-model-len\b|\bmodelURL:|\bvllmConfig:|\bengine_kwargs:|\bextraArgs:))"
)
"""Texts that serve something in a language of their own: Helm values, Ray's, scripts in a ConfigMap."""


def _elsewhere(found: tuple[Node, ...], name: str, served: Served) -> Served:
    """Texts of several lines that mention a serve command, and from which nothing was read."""
    known = sorted(
        {placed.place.line for command in served.commands for placed in command.layer.values()}
        | {command.place.line for command in served.commands}
        | {unread.place.line for unread in served.unread}
    )
    listed: list[Unread] = []
    for document in found:
        for node in document.walk():
            text = node.text or ""
            if "\n" not in text.strip() or not _MENTIONED.search(text + "\n"):
                continue
            first, last = node.key_line, node.line + text.count("\n") + 1
            if not any(first <= line <= last for line in known):
                why = "a text that seems to start vLLM, in a language that kvplan doesn't read here"
                listed.append(Unread(document.said("metadata", "name") or name, why, Place(name, node.key_line)))
    return Served(unread=tuple(listed))


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
