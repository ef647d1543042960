"""KServe: runtimes, which are templates, and the services that fill them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kvplan.manifests.formats.pods import ConfigMaps, container_of, listed, name_of
from kvplan.manifests.places import Place, Unread
from kvplan.manifests.processes.container import Container, Served
from kvplan.manifests.shell.parser import Word
from kvplan.manifests.yaml_nodes import Node

RUNTIMES = frozenset({"ServingRuntime", "ClusterServingRuntime"})
BY_RUNTIME = frozenset({"InferenceService", "LLMInferenceService"})
"""Kinds whose command a runtime may decide."""
TEMPLATES = RUNTIMES | {"LLMInferenceServiceConfig", "ClusterLLMInferenceServiceConfig"}
STORED = "/mnt/models"
"""Where KServe puts a service's model."""


def runtimes_of(objects: Iterable[Node]) -> dict[str, Node]:
    """The runtimes among objects, by their names."""
    return {name_of(item): item for item in objects if item.said("kind") in RUNTIMES}


def as_kind(item: Node, result: Served) -> Served:
    """What a container of an object serves, once KServe has made its own of it."""
    if item.said("kind") in TEMPLATES:
        return _without_model(result)
    by_model = item.said("kind") in BY_RUNTIME and item.get("spec", "model", "uri") is not None
    return Served() if by_model and not result.commands else result


def undecided(item: Node, file: str) -> Served:
    """What an object serves in which nothing was found to serve: by a runtime, whatever that says."""
    if item.said("kind") not in BY_RUNTIME:
        return Served()
    why = "a runtime that isn't in this file decides the command"
    return Served(unread=(Unread(name_of(item), why, Place(file, item.line)),))


def _without_model(result: Served) -> Served:
    """The same, where a template's command serves whatever model a service puts in its place: that is nothing to plan."""
    empty = [command for command in result.commands if str(command.layer[("model",)].value).startswith(STORED)]
    why = f"a runtime: a service that isn't in this file puts its model at {STORED}"
    unread = tuple(Unread(command.name, why, command.layer[("model",)].place, command=command) for command in empty)
    kept = tuple(command for command in result.commands if command not in empty)
    return Served(kept, (*result.unread, *unread), result.lines)


def runtime_of(item: Node) -> str | None:
    """The runtime that an InferenceService asks for."""
    if item.said("kind") != "InferenceService":
        return None
    return item.said("spec", "predictor", "model", "runtime")


def served_by_runtime(
    item: Node, runtimes: Mapping[str, Node], maps: ConfigMaps, file: str, size: int | None
) -> Iterator[Container]:
    """The container of the runtime that an InferenceService names, with the service's own arguments after its own.

    Source: KServe pkg/controller/v1beta1/inferenceservice/utils MergeRuntimeContainers.
    """
    runtime = runtimes.get(runtime_of(item) or "")
    model = item.get("spec", "predictor", "model")
    pod = runtime.get("spec") if runtime is not None else None
    if runtime is None or model is None or pod is None:
        return
    for node in listed(pod, "containers"):
        whole = container_of(item, pod, node, maps, file, size)
        own = container_of(item, model, model, maps, file, 1)
        words = [_stored(word, model) for word in (*whole.words, *own.words)]
        yield replace(
            whole, words=tuple(words), line=item.line, variables={**whole.variables, **own.variables},
            gpu=own.gpu or whole.gpu, gpus=own.gpus or whole.gpus, device=own.device or whole.device,
            devices=own.devices or whole.devices,
        )  # fmt: skip


def _stored(word: Word, model: Node) -> Word:
    """A word that names the folder where KServe puts the model, as the model that it puts there."""
    uri = model.said("storageUri") or ""
    if not uri.startswith("hf://") or not word.text.endswith(STORED):
        return word
    return replace(word, text=word.text.removesuffix(STORED) + uri.removeprefix("hf://"), script="")
