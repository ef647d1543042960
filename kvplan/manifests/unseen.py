"""YAML that seems to serve with vLLM but that no reader understands, so that it is at least listed."""

from __future__ import annotations

import re
from itertools import zip_longest

from kvplan.manifests.mentions import STARTS, mentions
from kvplan.manifests.places import Place, Unread
from kvplan.manifests.processes.container import Served
from kvplan.manifests.yaml_nodes import Node


def unseen(found: tuple[Node, ...], name: str, served: Served) -> Served:
    """Texts that seem to start vLLM, and settings of Ray Serve's, from which nothing was read."""
    known = sorted(
        {placed.place.line for command in served.commands for placed in command.layer.values()}
        | {command.place.line for command in served.commands}
        | {unread.place.line for unread in served.unread}
        | served.lines
    )
    listed: list[Unread] = []
    for document, end in zip_longest(found, (document.line for document in found[1:])):
        if _decided(document) and not any(document.line <= line and (end is None or line < end) for line in known):
            listed.append(Unread(document.said("metadata", "name") or name, _CONTROLLED, Place(name, document.line)))
            continue
        commands = {
            id(node)
            for holder in document.walk()
            for key in _COMMANDS & holder.keys.keys()
            for node in (holder.keys[key], *holder.keys[key].items)
        }
        for node in document.walk():
            why = _why_unread(node, command=id(node) in commands)
            why = MOUNTED if why is not None and document.said("kind") == "ConfigMap" else why
            first, last = node.key_line, node.line + node.script.count("\n") + 1
            if why is not None and not any(first <= line <= last for line in known):
                listed.append(Unread(document.said("metadata", "name") or name, why, Place(name, node.key_line)))
    return Served(unread=tuple(listed))


MOUNTED = (
    "a ConfigMap starts nothing itself: check it in one stream with what mounts it (kubectl kustomize FOLDER | kvplan check -), "
    "or the script or --config file in it as a file of its own"
)
"""Why what a ConfigMap holds isn't read on its own."""

_COMMANDS = frozenset({"args", "cmd", "command", "entrypoint", "exec", "run", "script", "start"})
"""Keys under which a single line is a command, and not a word about one."""


def _why_unread(node: Node, *, command: bool) -> str | None:
    """Why a node that serves something isn't read; None for one that serves nothing."""
    if node.get("engine_kwargs") is not None and node.get("model_loading_config") is not None:
        return "Ray Serve's own configuration: write its engine_kwargs as a --config file, or as a budget"
    text = node.text or ""
    starts = mentions(text + "\n") if "\n" in text.strip() else command and STARTS.match(text) is not None
    return "a text that seems to start vLLM, in a language that kvplan doesn't read here" if starts else None


_CONTROLLED = (
    "it names vLLM and a model in an object that kvplan doesn't know: its controller makes the command of that"
)
_VLLM = re.compile("vllm", re.IGNORECASE)
_ENGINES = ("type", "engine", "backend", "framework", "runtime")


def _decided(document: Node) -> bool:
    """Whether an object names vLLM and a model for a controller of its own, as Kthena's ModelBooster does."""
    if document.said("kind") is None or document.said("apiVersion") is None:
        return False
    return any(
        any(_VLLM.fullmatch(node.said(key) or "") for key in _ENGINES)
        and any(key.lower().startswith("model") and (inner.text or inner.keys) for key, inner in node.keys.items())
        for node in document.walk()
    )
