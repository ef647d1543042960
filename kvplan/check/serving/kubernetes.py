"""Kubernetes manifests: every pod template in them, whatever kind of object holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kvplan.check.budget import Place, Unread
from kvplan.check.merge import Given, Placed
from kvplan.check.serving.command import Configured
from kvplan.check.serving.container import Container, Served
from kvplan.check.serving.containers import served_by
from kvplan.check.serving.images import DEVICES as IMAGE_DEVICES
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
DEVICES = {
    "google.com/tpu": "a TPU", "cloud-tpus.google.com/v2": "a TPU", "cloud-tpus.google.com/v3": "a TPU", "habana.ai/gaudi": "Gaudi",
    "aws.amazon.com/neuron": "Neuron", "aws.amazon.com/neuroncore": "Neuron", "aws.amazon.com/neurondevice": "Neuron",
    "gpu.intel.com/i915": "an Intel GPU", "gpu.intel.com/xe": "an Intel GPU", "huawei.com/Ascend910": "Ascend",
    "huawei.com/Ascend310P": "Ascend", "huawei.com/ascend-1980": "Ascend", "rebellions.ai/ATOM": "an NPU", "furiosa.ai/rngd": "an NPU",
}  # fmt: skip
"""Resources that stand for devices whose memory vLLM plans by other rules."""

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
    runtimes = {_name(item): item for item in objects if item.said("kind") in _RUNTIMES}
    used = {name for item in objects if (name := _runtime(item)) in runtimes}
    for item in objects:
        if item.said("kind") in _RUNTIMES and _name(item) in used:
            continue
        each = [*_served_by_runtime(item, runtimes, maps, file), *_all_containers(item, maps, file)]
        if item.said("kind") == "Model" and (item.said("apiVersion") or "").startswith("kubeai.org/"):
            each += _kubeai(item, file)
        results = [served_by(container) for container in each]
        if item.said("kind") in _TEMPLATES:
            results = [_without_model(result) for result in results]
        serving = [result for result in results if result.commands or result.unread]
        for container, result in zip(each, results, strict=True):
            found += result if len(serving) <= 1 else _named(result, f"{_name(item)}/{container.inner}")
        if item.said("kind") in _BY_RUNTIME and not serving:
            why = "a runtime that isn't in this file decides the command"
            found += Served(unread=(Unread(_name(item), why, Place(file, item.line)),))
    return found


def _all_containers(item: Node, maps: _ConfigMaps, file: str) -> Iterator[Container]:
    """Those of every pod, and those that a kind of its own puts elsewhere (`runner`, `mainContainer`)."""
    seen: set[int] = set()
    nodes = _size(item)
    for pod in item.walk():
        if pod.get("containers") is None:
            continue
        sidecars = [node for node in _list(pod, "initContainers") if node.said("restartPolicy") == "Always"]
        seen |= {id(node) for key in ("containers", "initContainers") for node in _list(pod, key)}
        for node in (*sidecars, *_list(pod, "containers")):
            yield _container(item, pod, node, maps, file, nodes)
    for holder in () if item.said("kind") in _OF_CHARTS else item.walk():
        for key, node in holder.keys.items():
            if id(node) not in seen and node.said("image") and (node.get("args") or node.get("command")):
                alone = _container(item, holder, node, maps, file, nodes)
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

_RUNTIMES = frozenset({"ServingRuntime", "ClusterServingRuntime"})


_TEMPLATES = _RUNTIMES | {"LLMInferenceServiceConfig", "ClusterLLMInferenceServiceConfig"}
STORED = "/mnt/models"
"""Where KServe puts a service's model."""


def _without_model(result: Served) -> Served:
    """The same, where a template's command serves whatever model a service puts in its place: that is nothing to plan."""
    empty = [command for command in result.commands if str(command.layer[("model",)].value).startswith(STORED)]
    why = f"a runtime: a service that isn't in this file puts its model at {STORED}"
    unread = tuple(Unread(command.name, why, command.layer[("model",)].place) for command in empty)
    kept = tuple(command for command in result.commands if command not in empty)
    return Served(kept, (*result.unread, *unread))


def _runtime(item: Node) -> str | None:
    """The runtime that an InferenceService asks for."""
    if item.said("kind") != "InferenceService":
        return None
    return item.said("spec", "predictor", "model", "runtime")


def _served_by_runtime(item: Node, runtimes: Mapping[str, Node], maps: _ConfigMaps, file: str) -> Iterator[Container]:
    """The container of the runtime that an InferenceService names, with the service's own arguments after its own.

    Source: KServe pkg/controller/v1beta1/inferenceservice/utils MergeRuntimeContainers.
    """
    runtime = runtimes.get(_runtime(item) or "")
    model = item.get("spec", "predictor", "model")
    pod = runtime.get("spec") if runtime is not None else None
    if runtime is None or model is None or pod is None:
        return
    for node in _list(pod, "containers"):
        whole = _container(item, pod, node, maps, file, _size(item))
        own = _container(item, model, model, maps, file, 1)
        words = [_stored(word, model) for word in (*whole.words, *own.words)]
        yield replace(
            whole, words=tuple(words), line=item.line, variables={**whole.variables, **own.variables},
            gpu=own.gpu or whole.gpu, gpus=own.gpus or whole.gpus, device=own.device or whole.device,
        )  # fmt: skip


def _stored(word: Word, model: Node) -> Word:
    """A word that names the folder where KServe puts the model, as the model that it puts there."""
    uri = model.said("storageUri") or ""
    if not uri.startswith("hf://") or not word.text.endswith(STORED):
        return word
    return replace(word, text=word.text.removesuffix(STORED) + uri.removeprefix("hf://"), script="")


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
        *(Word(arg.text or "", arg.line) for arg in _list(spec, "args")),
    )
    profile = spec.get("resourceProfile")
    _, _, count = (profile.text or "").rpartition(":") if profile is not None else ("", "", "")
    yield Container(
        name=_name(item),
        inner="server",
        file=file,
        line=item.line,
        words=words,
        image="vllm",
        entrypoint=False,
        variables={key: node.text or "" for key, node in env.keys.items()} if env is not None else {},
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


def _container(item: Node, pod: Node, node: Node, maps: _ConfigMaps, file: str, nodes: int | None) -> Container:
    variables = _environment(node, maps)
    command, args = _list(node, "command"), _list(node, "args")
    return Container(
        name=_name(item),
        inner=node.said("name") or "container",
        file=file,
        line=node.key_line,
        words=tuple(_expanded(entry, variables) for entry in (*command, *args)),
        image=node.said("image") or "",
        entrypoint=bool(command),
        variables=variables,
        find=lambda path: maps.find(path, pod, node),
        gpu=pod_gpu((pod,), file, node),
        gpus=resource_gpus(node, file),
        device=device_of(node),
        nodes=nodes,
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


def device_of(container: Node) -> str | None:
    """What a container asks for that is no GPU of NVIDIA's or AMD's."""
    for kind in ("limits", "requests"):
        resources = container.get("resources", kind)
        for key in resources.keys if resources is not None else ():
            if key in DEVICES:
                return DEVICES[key]
    return None


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
