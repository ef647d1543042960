"""Kubernetes manifests: every pod template in them, whatever kind of object holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvplan.manifests.accelerators import AMD, NVIDIA, Device
from kvplan.manifests.container import Container, Served
from kvplan.manifests.containers import served_by
from kvplan.manifests.images import DEVICES as IMAGE_DEVICES
from kvplan.manifests.kserve import RUNTIMES, TEMPLATES, runtime_of, served_by_runtime, without_model
from kvplan.manifests.nodes import Node
from kvplan.manifests.pods import ConfigMaps, container_of, listed, name_of
from kvplan.manifests.said import Given, Place, Unread
from kvplan.manifests.words import Word


def is_manifest(document: Node) -> bool:
    """Whether a document is an object of Kubernetes."""
    return "kind" in document.keys and "apiVersion" in document.keys


def served(documents: Sequence[Node], file: str) -> Served:
    """What the objects serve."""
    objects = [item for document in documents for item in _objects(document)]
    maps = ConfigMaps(
        {name: item for item in objects if item.said("kind") == "ConfigMap" for name in [name_of(item)]}, file
    )
    found = Served()
    runtimes = {name_of(item): item for item in objects if item.said("kind") in RUNTIMES}
    used = {name for item in objects if (name := runtime_of(item)) in runtimes}
    for item in objects:
        if item.said("kind") in RUNTIMES and name_of(item) in used:
            continue
        each = [*served_by_runtime(item, runtimes, maps, file, _size(item)), *_all_containers(item, maps, file)]
        if item.said("kind") == "Model" and (item.said("apiVersion") or "").startswith("kubeai.org/"):
            each += _kubeai(item, file)
        if (item.said("apiVersion") or "").startswith("ray.io/"):  # whose operator gives these their command
            each = [container for container in each if container.words]
        results = [served_by(container) for container in each]
        if item.said("kind") in TEMPLATES:
            results = [without_model(result) for result in results]
        if item.said("kind") in _BY_RUNTIME and item.get("spec", "model", "uri") is not None:
            results = [result if result.commands else Served() for result in results]
        serving = [result for result in results if result.commands or result.unread]
        for container, result in zip(each, results, strict=True):
            found += result if len(serving) <= 1 else _named(result, f"{name_of(item)}/{container.inner}")
        if item.said("kind") in _BY_RUNTIME and not serving:
            why = "a runtime that isn't in this file decides the command"
            found += Served(unread=(Unread(name_of(item), why, Place(file, item.line)),))
    return found


def _all_containers(item: Node, maps: ConfigMaps, file: str) -> Iterator[Container]:
    """Those of every pod, and those that a kind of its own puts elsewhere (`runner`, `mainContainer`)."""
    seen: set[int] = set()
    nodes = _size(item)
    for pod in item.walk():
        if pod.get("containers") is None:
            continue
        sidecars = [node for node in listed(pod, "initContainers") if node.said("restartPolicy") == "Always"]
        seen |= {id(node) for key in ("containers", "initContainers") for node in listed(pod, key)}
        for node in (*sidecars, *listed(pod, "containers")):
            yield container_of(item, pod, node, maps, file, nodes)
    for holder in () if item.said("kind") in _OF_CHARTS else item.walk():
        for key, node in holder.keys.items():
            if id(node) not in seen and node.said("image") and (node.get("args") or node.get("command")):
                alone = container_of(item, holder, node, maps, file, nodes)
                yield alone if node.said("name") else replace(alone, inner=key)


def _size(item: Node) -> int | None:
    """How many pods serve together as one; None where that isn't known."""
    group = item.get("spec", "leaderWorkerTemplate")
    if group is not None:
        size = group.said("size") or "1"
        return int(size) if size.isdigit() else None
    several = any(key in node.keys for node in item.walk() for key in _SEVERAL)
    return None if several else 1


_SEVERAL = (
    "leaderWorkerTemplate",
    "headGroupSpec",
    "workerGroupSpecs",
    "workerSpec",
    "multinode",
    "multiNode",
    "worker",
)
"""Keys of objects whose pods may serve together."""

_OF_CHARTS = frozenset({"Application", "HelmRelease"})
"""Kinds that hold a chart's values, which have images and arguments of their own."""


def _kubeai(item: Node, file: str) -> Iterator[Container]:
    """What KubeAI makes of a model whose engine is vLLM: its URL and its arguments, in an image of its own."""
    spec = item.get("spec")
    url = spec.get("url") if spec is not None else None
    if spec is None or url is None or url.text is None or spec.said("engine") != "VLLM":
        return
    model = url.text.removeprefix("hf://").partition("?")[0]
    env = spec.get("env")
    words = (
        Word("--model", url.line),
        Word(model, url.line),
        *(Word(arg.text or "", arg.line) for arg in listed(spec, "args")),
    )
    profile = spec.get("resourceProfile")
    _, _, count = (profile.text or "").rpartition(":") if profile is not None else ("", "", "")
    yield Container(
        name=name_of(item),
        inner="server",
        file=file,
        line=item.line,
        words=words,
        image="vllm",
        entrypoint=False,
        variables={key: node.text or "" for key, node in env.keys.items()} if env is not None else {},
        devices=tuple(
            Device(profile.text or "", vendor)
            for vendor in (NVIDIA, AMD)
            if profile and f"{vendor}-" in (profile.text or "")
        ),
        gpus=Given(count, Place(file, profile.key_line)) if profile is not None and count.isdigit() else None,
        device=next(
            (device for word, device in IMAGE_DEVICES.items() if profile and f"{word}-" in (profile.text or "")), None
        ),
    )


_BY_RUNTIME = frozenset({"InferenceService", "LLMInferenceService"})


def _named(result: Served, name: str) -> Served:
    return Served(
        tuple(replace(command, name=name) for command in result.commands),
        tuple(replace(unread, what=name) for unread in result.unread),
    )


def _objects(document: Node) -> Iterator[Node]:
    if document.said("kind") == "List":
        items = document.get("items")
        for item in items.items if items is not None else ():
            yield from _objects(item)
    else:
        yield document
