"""Kubernetes manifests: every pod template in them, whatever kind of object holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kvplan.manifests.formats import kserve, kubeai
from kvplan.manifests.formats.pods import ConfigMaps, container_of, listed, name_of
from kvplan.manifests.processes.container import Container, Served
from kvplan.manifests.processes.serving import served_by
from kvplan.manifests.yaml_nodes import Node


def is_manifest(document: Node) -> bool:
    """Whether a document is an object of Kubernetes."""
    return "kind" in document.keys and "apiVersion" in document.keys


def served(documents: Sequence[Node], file: str) -> Served:
    """What the objects serve."""
    objects = [item for document in documents for item in _objects(document)]
    maps = ConfigMaps(
        {name: item for item in objects if item.said("kind") == "ConfigMap" for name in [name_of(item)]}, file
    )
    runtimes = kserve.runtimes_of(objects)
    filled = {kserve.runtime_of(item) for item in objects}
    alone = (item for item in objects if item.said("kind") not in kserve.RUNTIMES or name_of(item) not in filled)
    return sum((_served(item, runtimes, maps, file) for item in alone), Served())


def _served(item: Node, runtimes: Mapping[str, Node], maps: ConfigMaps, file: str) -> Served:
    """What one object serves; commands are called by their containers where there are several."""
    containers = list(_containers(item, runtimes, maps, file))
    results = [kserve.as_kind(item, served_by(container)) for container in containers]
    serving = [result for result in results if result.commands or result.unread]
    if not serving:
        return sum(results, kserve.undecided(item, file))
    if len(serving) == 1:
        return sum(results, Served())
    named = (f"{name_of(item)}/{container.inner}" for container in containers)
    return sum(map(_named, results, named), Served())


def _containers(item: Node, runtimes: Mapping[str, Node], maps: ConfigMaps, file: str) -> Iterator[Container]:
    """Those of an object."""
    if kubeai.is_object(item):
        spec = item.get("spec")
        if spec is not None and kubeai.is_model(spec):
            yield kubeai.served(spec, name_of(item), file, item.line)
        return
    yield from kserve.served_by_runtime(item, runtimes, maps, file, _size(item))
    of_ray = (item.said("apiVersion") or "").startswith("ray.io/")  # whose operator gives these their command
    yield from (container for container in _all_containers(item, maps, file) if container.words or not of_ray)


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


def _named(result: Served, name: str) -> Served:
    return Served(
        tuple(replace(command, name=name) for command in result.commands),
        tuple(replace(unread, what=name) for unread in result.unread),
        result.lines,
    )


def _objects(document: Node) -> Iterator[Node]:
    if document.said("kind") == "List":
        items = document.get("items")
        for item in items.items if items is not None else ():
            yield from _objects(item)
    else:
        yield document
