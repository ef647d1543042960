"""KubeAI: models by their URLs, on resource profiles that are a GPU's name and a number.

Source: KubeAI's charts/kubeai/values.yaml (resourceProfiles), internal/modelcontroller/engine_vllm.go vLLMPodForModel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kvplan.manifests.devices.accelerators import AMD, NVIDIA, Device
from kvplan.manifests.installed.images import DEVICES
from kvplan.manifests.places import Given, Place, Placed
from kvplan.manifests.processes.container import Container
from kvplan.manifests.shell.parser import Word
from kvplan.manifests.yaml_nodes import Node

STARTED = ("python3", "-m", "vllm.entrypoints.openai.api_server")
_VENDORS = {"nvidia": NVIDIA, "amd": AMD}
_PROFILE = re.compile(r"(?P<name>(?:(?P<vendor>nvidia|amd)-gpu-(?P<gpu>.+?))|.+?)(?::(?P<count>\d+))?", re.ASCII)


def is_object(item: Node) -> bool:
    """Whether an object is a model of KubeAI's."""
    return item.said("kind") == "Model" and (item.said("apiVersion") or "").startswith("kubeai.org/")


def is_model(spec: Node) -> bool:
    """Whether a mapping is a model that vLLM serves: an object's spec, or an entry of the chart of models."""
    return spec.said("engine") == "VLLM" and spec.said("url") is not None and spec.get("resourceProfile") is not None


def served(spec: Node, name: str, file: str, line: int) -> Container:
    """The container that KubeAI makes of a model."""
    url, image, env = spec.get("url"), spec.said("image"), spec.get("env")
    profile = _profile(spec, file)
    return Container(
        name=name,
        inner="server",
        file=file,
        line=line,
        words=tuple(_words(spec, url.line if url is not None else line)),
        image=image or "vllm",
        variables={key: node.text or "" for key, node in env.keys.items()} if env is not None else {},
        gpu=profile.gpu,
        gpus=profile.gpus,
        device=profile.device,
        devices=profile.devices,
    )


def _words(spec: Node, line: int) -> Iterator[Word]:
    yield from (Word(word, line) for word in STARTED)
    yield Word("--model", line)
    yield Word((spec.said("url") or "").removeprefix("hf://").partition("?")[0], line)
    args = spec.get("args")
    yield from (Word(arg.text or "", arg.line) for arg in (args.items if args is not None else ()))
    adapters = spec.get("adapters")
    if adapters is not None and adapters.items:
        yield Word("--enable-lora", adapters.line)


@dataclass(frozen=True, slots=True)
class _Profile:
    """What a resource profile says of the device."""

    gpu: Placed | None = None
    gpus: Placed | None = None
    device: str | None = None
    devices: tuple[Device, ...] = ()


def _profile(spec: Node, file: str) -> _Profile:
    """`nvidia-gpu-l4:2` is two L4s, `cpu:8` none; what another profile gives, only the chart's values say."""
    node = spec.get("resourceProfile")
    match = _PROFILE.fullmatch(node.text or "") if node is not None else None
    if node is None or match is None:
        return _Profile()
    place, gpu, count = Place(file, node.key_line), match["gpu"], match["count"]
    device = next((DEVICES[word] for word in re.split(r"[^a-z0-9]+", match["name"]) if word in DEVICES), None)
    return _Profile(
        gpu=Given(gpu, place) if gpu else None,
        gpus=Given(count, place) if count and device is None else None,
        device=device,
        devices=(Device(node.text or "", _VENDORS[match["vendor"]]),) if gpu else (),
    )
