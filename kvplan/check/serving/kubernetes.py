"""Kubernetes manifests: every pod template in them, whatever kind of object holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvplan.check.budget import Place, Unread
from kvplan.check.merge import Given, Placed
from kvplan.check.serving.command import Configured
from kvplan.check.serving.containers import Container, Served, served_by
from kvplan.check.serving.nodes import Node
from kvplan.check.serving.words import Word

GPU_LABELS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name",
    "gpu.nvidia.com/model", "gpu.nvidia.com/class",
)  # fmt: skip
"""Node labels whose value names the accelerator."""

INSTANCES = {
    "p4d": "a100-sxm-40", "p4de": "a100-sxm-80", "p5": "h100-sxm", "p5e": "h200-sxm", "p5en": "h200-sxm",
    "p6-b200": "b200-sxm", "g4dn": "t4", "g5": "a10g", "g6": "l4", "g6e": "l40s",
}  # fmt: skip
"""Accelerators of EC2 instance families. Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html"""

_INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_COUNTED = re.compile(r"(nvidia|amd)\.com/(gpu|mig-(?P<profile>\d+g\.\d+gb))")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def is_manifest(document: Node) -> bool:
    """Whether a document is an object of Kubernetes."""
    return "kind" in document.keys and "apiVersion" in document.keys


def served(documents: Sequence[Node], file: str) -> Served:
    """What the objects serve."""
    objects = [item for document in documents for item in _objects(document)]
    maps = _ConfigMaps(
        {name: item for item in objects if item.said("kind") == "ConfigMap" for name in [_name(item)]}, file
    )
    found = Served()
    for item in objects:
        pods = [node for node in item.walk() if node.get("containers") is not None]
        each = [container for pod in pods for container in _containers(item, pod, maps, file)]
        results = [served_by(container) for container in each]
        serving = [result for result in results if result.commands or result.unread]
        for container, result in zip(each, results, strict=True):
            found += result if len(serving) <= 1 else _named(result, f"{_name(item)}/{container.inner}")
        if item.said("kind") in _BY_RUNTIME and not serving:
            why = "a runtime that isn't in this file decides the command"
            found += Served(unread=(Unread(_name(item), why, Place(file, item.line)),))
    return found


_BY_RUNTIME = frozenset({"InferenceService", "LLMInferenceService"})


def _named(result: Served, name: str) -> Served:
    from dataclasses import replace

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


def _name(item: Node) -> str:
    return item.said("metadata", "name") or item.said("metadata", "generateName") or item.said("kind") or "unnamed"


@dataclass(frozen=True, slots=True)
class _ConfigMaps:
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
        for mount in _list(container, "volumeMounts"):
            base, inner = mount.said("mountPath") or "", mount.said("subPath")
            for volume in _list(pod, "volumes"):
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


def _list(node: Node, key: str) -> list[Node]:
    found = node.get(key)
    return found.items if found is not None else []


def _containers(item: Node, pod: Node, maps: _ConfigMaps, file: str) -> Iterator[Container]:
    for node in _list(pod, "containers"):
        variables = _environment(node, maps)
        command, args = _list(node, "command"), _list(node, "args")
        yield Container(
            name=_name(item),
            inner=node.said("name") or "container",
            file=file,
            line=node.key_line,
            words=tuple(_expanded(entry, variables) for entry in (*command, *args)),
            image=node.said("image") or "",
            entrypoint=bool(command),
            variables=variables,
            find=lambda path, node=node: maps.find(path, pod, node),  # type: ignore[misc]
            gpu=pod_gpu((pod,), file, node),
            gpus=resource_gpus(node, file),
        )


def _environment(container: Node, maps: _ConfigMaps) -> dict[str, str]:
    """Variables whose value stands in the file."""
    known: dict[str, str] = {}
    for source in _list(container, "envFrom"):
        known |= {key: node.text or "" for key, node in maps.data(source.said("configMapRef", "name")).items()}
    for entry in _list(container, "env"):
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
    return Word(replaced, node.line, hidden, script, node.script_line)


def resource_gpus(container: Node, file: str) -> Placed | None:
    """How many GPUs a container asks for."""
    return _resources(container, file)[0]


def _resources(container: Node, file: str) -> tuple[Placed | None, str | None]:
    """The number of GPUs a container asks for, and the MIG profile it names."""
    for kind in ("limits", "requests"):
        resources = container.get("resources", kind)
        for key, node in resources.keys.items() if resources is not None else ():
            match = _COUNTED.fullmatch(key)
            if match is not None and node.text is not None:
                return Given(node.text, Place(file, node.key_line)), match["profile"]
    return None, None


def pod_gpu(pods: Sequence[Node], file: str, container: Node) -> Placed | None:
    """The accelerator that a node must have for these pod specs; None where several would do or nothing is said."""
    selected = [entry for pod in pods for entry in _selectors(pod, file)]
    found = {(value, place) for key, value, place in selected if key in GPU_LABELS}
    found |= {
        (INSTANCES[value.partition(".")[0]], place)
        for key, value, place in selected
        if key in _INSTANCE_LABELS and value.partition(".")[0] in INSTANCES
    }
    if len({value for value, _ in found}) != 1:
        return None
    value, place = min(found, key=lambda entry: entry[1])
    profile = _resources(container, file)[1]
    return Given(f"{value}:{profile}" if profile else value, place)


def _selectors(pod: Node, file: str) -> Iterator[tuple[str, str, Place]]:
    selector = pod.get("nodeSelector")
    for key, node in selector.keys.items() if selector is not None else ():
        if node.text is not None:
            yield key, node.text, Place(file, node.key_line)
    affinity = pod.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for node in affinity.walk() if affinity is not None else ():
        if node.said("operator") == "In":
            for value in _list(node, "values"):
                yield node.said("key") or "", value.text or "", Place(file, value.line)
