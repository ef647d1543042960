"""A container of a pod: its words, environment and mounted configuration, and the devices that it and its node have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvplan.manifests.devices.accelerators import Device, of_labels, of_resource
from kvplan.manifests.devices.node_gpus import Chosen, chosen
from kvplan.manifests.flags.command import Configured
from kvplan.manifests.places import Given, Place, Placed
from kvplan.manifests.processes.container import Container
from kvplan.manifests.shell.parser import Word
from kvplan.manifests.yaml_nodes import Node

DEVICES = {
    "google.com/tpu": "a TPU", "cloud-tpus.google.com/": "a TPU", "habana.ai/": "Gaudi", "aws.amazon.com/neuron": "Neuron",
    "gpu.intel.com/": "an Intel GPU", "huawei.com/Ascend": "Ascend", "huawei.com/ascend": "Ascend", "rebellions.ai/": "an NPU",
    "furiosa.ai/": "an NPU", "ibm.com/spyre": "Spyre",
}  # fmt: skip
"""Beginnings of resources that stand for devices whose memory vLLM plans by other rules."""

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")


def name_of(item: Node) -> str:
    """An object's name, or what stands for one."""
    return item.said("metadata", "name") or item.said("metadata", "generateName") or item.said("kind") or "unnamed"


@dataclass(frozen=True, slots=True)
class ConfigMaps:
    """ConfigMaps of the file, by name."""

    objects: Mapping[str, Node]
    file: str

    def data(self, name: str | None) -> Mapping[str, Node]:
        """The entries of one."""
        item = self.objects.get(name or "")
        data = item.get("data") if item is not None else None
        return data.keys if data is not None else {}

    def find(self, path: str, pod: Node, container: Node) -> Configured | None:
        """The text behind a path in a container, where a ConfigMap of this file is mounted there."""
        for mount in listed(container, "volumeMounts"):
            base, inner = mount.said("mountPath") or "", mount.said("subPath")
            for volume in listed(pod, "volumes"):
                name = volume.said("configMap", "name")
                if volume.said("name") != mount.said("name") or name is None:
                    continue
                key = inner if inner and path == base else path.removeprefix(base.rstrip("/") + "/")
                node = self.data(name).get(_renamed(volume, key))
                if node is not None and node.text is not None:
                    return Configured(self.file, node.text, node.script_line)
        return None


def _renamed(volume: Node, path: str) -> str:
    """The key that `items` puts at a path."""
    items = volume.get("configMap", "items")
    for item in items.items if items is not None else ():
        if item.said("path") == path:
            return item.said("key") or path
    return path


def listed(node: Node, key: str) -> list[Node]:
    """Items of a list under a key; none where there is no list."""
    found = node.get(key)
    return found.items if found is not None else []


def container_of(item: Node, pod: Node, node: Node, maps: ConfigMaps, file: str, nodes: int | None) -> Container:
    """A container of a pod of an object. nodes: how many such pods serve together."""
    variables, machine = _environment(node, maps), node_of((pod,), file, node)
    command, args = listed(node, "command"), listed(node, "args")
    return Container(
        name=name_of(item),
        inner=node.said("name") or "container",
        file=file,
        line=node.key_line,
        words=tuple(_expanded(entry, variables) for entry in (*command, *args)),
        image=node.said("image") or "",
        entrypoint=bool(command),
        variables=variables,
        elsewhere=_elsewhere(node, maps) - variables.keys(),
        find=lambda path: maps.find(path, pod, node),
        gpu=machine.gpu,
        unclear=machine.unclear,
        gpus=resource_gpus(node, file),
        device=device_of(node),
        devices=(*devices_of((pod,), file, node), *machine.devices),
        nodes=nodes,
    )


def _environment(container: Node, maps: ConfigMaps) -> dict[str, str]:
    """Variables whose value stands in the file."""
    known: dict[str, str] = {}
    for source in listed(container, "envFrom"):
        known |= {key: node.text or "" for key, node in maps.data(source.said("configMapRef", "name")).items()}
    for entry in listed(container, "env"):
        name, value = entry.said("name") or "", entry.said("value")
        reference = entry.get("valueFrom", "configMapKeyRef")
        if value is None and reference is not None:
            node = maps.data(reference.said("name")).get(reference.said("key") or "")
            value = node.text if node is not None else None
        if value is not None:
            known[name] = _REFERENCE.sub(lambda match: known.get(match[1] or "", match[0]), value)
        elif entry.get("valueFrom") is None:
            known[name] = ""
    return known


def _elsewhere(container: Node, maps: ConfigMaps) -> frozenset[str]:
    """Variables whose value stands elsewhere: in a Secret, a ConfigMap that isn't here, or the pod's own state.

    A whole ConfigMap that isn't here may set whatever the command reads. A whole Secret is taken for tokens alone.
    """
    names = {entry.said("name") or "" for entry in listed(container, "env") if entry.get("valueFrom") is not None}
    whole = (source.said("configMapRef", "name") for source in listed(container, "envFrom"))
    if any(name is not None and name not in maps.objects for name in whole):
        words = (*listed(container, "command"), *listed(container, "args"))
        names.update(name for word in words for name in _VARIABLE.findall(word.script))
    return frozenset(names)


def _expanded(node: Node, variables: Mapping[str, str]) -> Word:
    """A word with `$(NAME)` replaced, as Kubernetes does; `$$` is a dollar, an unknown name stays and is unknown."""
    unknown: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[1] in variables:
            return variables[match[1]]
        unknown.append(match[0])
        return match[0]

    text = node.value if isinstance(node.value, str) else ""
    script = _REFERENCE.sub(value, node.script)
    unknown.clear()
    replaced = _REFERENCE.sub(value, text)
    # A text with blanks is a script, in which `$(...)` that Kubernetes doesn't know is left to the shell.
    hidden = unknown[0] if unknown and not any(map(str.isspace, text)) else None
    said = Word(replaced, node.line, hidden, script, node.script_line)
    return said if hidden is None else replace(said, whose="whose value doesn't stand in this file")


class Asked(NamedTuple):
    """A resource that a container asks for: what it gets, and its number, None for one that isn't counted in GPUs or slices."""

    device: Device
    number: Placed | None


_NONE = re.compile(r"0+(?:\.0*)?[A-Za-z]*", re.ASCII)
"""An amount of nothing: `0`, `0Gi`."""


def _resources(container: Node) -> dict[str, Node]:
    """Every resource of which a container asks for some; limits go before requests."""
    found: dict[str, Node] = {}
    for kind in ("requests", "limits"):
        resources = container.get("resources", kind)
        found |= resources.keys if resources is not None else {}
    return {name: node for name, node in found.items() if not _NONE.fullmatch(node.text or "")}


def asked_for(container: Node, file: str) -> tuple[Asked, ...]:
    """The GPUs, slices and shares that a container asks for."""
    devices = ((of_resource(key, node.text or ""), node) for key, node in _resources(container).items())
    return tuple(Asked(device, _number(device, node, file)) for device, node in devices if device is not None)


def _number(device: Device, node: Node, file: str) -> Placed | None:
    return Given(node.text, Place(file, node.key_line)) if device.counts and node.text is not None else None


def resource_gpus(container: Node, file: str) -> Placed | None:
    """How many GPUs a container asks for."""
    return next((asked.number for asked in asked_for(container, file) if asked.number is not None), None)


def device_of(container: Node) -> str | None:
    """What a container asks for that is no GPU of NVIDIA's or AMD's."""
    return next((kind for key in _resources(container) if (kind := foreign(key)) is not None), None)


def foreign(resource: str) -> str | None:
    """The kind of device that a resource stands for, where that is no GPU of NVIDIA's or AMD's."""
    return next((kind for start, kind in DEVICES.items() if resource.startswith(start)), None)


def devices_of(pods: Sequence[Node], file: str, container: Node) -> Iterator[Device]:
    """What a container asks for in GPUs, and what its pods say of their nodes'."""
    yield from (asked.device for asked in asked_for(container, file))
    yield from of_labels((key, value) for pod in pods for key, value, _ in _selectors(pod, file))


def node_of(pods: Sequence[Node], file: str, container: Node) -> Chosen:
    """The accelerator that a node must have for these pod specs, or the slice of it that the container asks for."""
    found = chosen(entry for pod in pods for entry in _selectors(pod, file))
    profile = next((asked.device.profile for asked in asked_for(container, file) if asked.device.counts), None)
    if found.gpu is None or profile is None:
        return found
    return replace(found, gpu=Given(f"{found.gpu.value}:{profile}", found.gpu.place))


def _selectors(pod: Node, file: str) -> Iterator[tuple[str, str, Place]]:
    selector = pod.get("nodeSelector")
    for key, node in selector.keys.items() if selector is not None else ():
        if node.text is not None:
            yield key, node.text, Place(file, node.key_line)
    affinity = pod.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for node in affinity.walk() if affinity is not None else ():
        if node.said("operator") == "In":
            for value in listed(node, "values"):
                yield node.said("key") or "", value.text or "", Place(file, value.line)
