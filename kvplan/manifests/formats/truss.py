"""Baseten's config.yaml: an image, the command that starts a server in it, and the accelerators that it gets.

Source: https://docs.baseten.co/development/model/custom-server (docker_server), https://docs.baseten.co/reference/truss-configuration.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.manifests.places import Given, Place, Unread
from kvplan.manifests.processes.container import Container, Served
from kvplan.manifests.processes.serving import served_by
from kvplan.manifests.shell.word import Word
from kvplan.manifests.yaml_nodes import Node


def is_truss(document: Node) -> bool:
    """Whether a document says how Baseten starts a server."""
    return document.said("docker_server", "start_command") is not None


def served(document: Node, file: str) -> Served:
    """What its start command serves."""
    start, image = document.keys["docker_server"].keys["start_command"], document.said("base_image", "image")
    name, variables = document.said("model_name") or file, document.get("environment_variables")
    script = Word(start.text or "", start.line, script=start.script, script_line=start.script_line)
    container = Container(
        name=name,
        file=file,
        line=start.key_line,
        words=(Word("sh", start.line), Word("-c", start.line), script),
        image=image,
        variables={key: node.text for key, node in variables.keys.items() if node.text is not None}
        if variables
        else {},
    )
    accelerator = document.get("resources", "accelerator")
    if accelerator is not None and accelerator.text:
        gpu, _, count = accelerator.text.partition(":")
        place = Place(file, accelerator.line)
        container = replace(container, gpu=Given(gpu, place), gpus=Given(count or "1", place))
    found = served_by(container)
    if found != Served() and not (found.unread and not found.commands and "vllm" not in script.text):
        return found
    if "vllm" not in f"{script.text}{image}".lower():
        return Served()
    why = f"what its docker_server.start_command {script.text[:60]!r} serves doesn't stand here"
    return Served(unread=(Unread(name, why, container.place),))
