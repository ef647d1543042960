"""Helm values: any mapping that holds a container's arguments, and the settings of vLLM's production stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kvplan.manifests.devices.accelerators import of_resource
from kvplan.manifests.flags import names
from kvplan.manifests.formats import kubeai, production_stack
from kvplan.manifests.formats.chart_images import Images
from kvplan.manifests.formats.pods import device_of, devices_of, foreign, node_of, resource_gpus
from kvplan.manifests.installed.images import is_vllm_image
from kvplan.manifests.places import Given, Place, Placed, Remark, Unread
from kvplan.manifests.processes.container import Container, Served
from kvplan.manifests.processes.serving import served_by
from kvplan.manifests.shell.parser import Word, listed
from kvplan.manifests.yaml_nodes import Node, plain

_ARGUMENTS = ("args", "extraArgs", "extraArguments", "containerArgs", "vllmArgs", "engineArgs", "command")
_MODELS = ("modelURL", "model", "modelName", "modelId", "modelID", "hfModel", "hfModelId", "repository")
_NAMES = ("modelURL", "name", "id", "uri")
_TELLING = frozenset({
    "model", "max-model-len", "tensor-parallel-size", "gpu-memory-utilization", "max-num-seqs", "max-num-batched-tokens",
    "kv-cache-dtype", "pipeline-parallel-size",
})  # fmt: skip
"""Flags that only a serve command of vLLM has."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A mapping with arguments, its name, and the mappings around it, the outermost first. images: that it may have from elsewhere."""

    name: str
    node: Node
    around: tuple[Node, ...]
    images: Images = field(default_factory=Images)

    @property
    def path(self) -> tuple[Node, ...]:
        """It and the mappings around it, the outermost last."""
        return (self.node, *reversed(self.around))


def served(document: Node, file: str) -> Served:
    """What the values serve."""
    found = Served()
    candidates = list(_candidates(document, "values", ()))
    images = Images.of(document, [candidate.path for candidate in candidates])
    for candidate in candidates:
        found += _served(replace(candidate, images=images), file)
    if found == Served() and (line := _image_line(document)) is not None:
        why = "an image of vLLM, and its arguments stand elsewhere: check what is made of this (of a chart: helm template CHART | kvplan check -)"
        found += Served(unread=(Unread(file, why, Place(file, line)),))
    return found


def runtime(item: Node, file: str) -> Served:
    """What an object of the production stack's operator serves."""
    spec = item.get("spec")
    model = spec.get("model", "modelURL") if spec is not None else None
    if spec is None or model is None or model.text is None:
        return Served()
    words, variables = production_stack.operated(spec)
    registry, image = (spec.said("deploymentConfig", "image", key) for key in ("registry", "name"))
    gpus = spec.get("deploymentConfig", "resources", "gpu")
    container = Container(
        name=item.said("metadata", "name") or "runtime",
        file=file,
        line=spec.key_line,
        words=(Word("vllm", spec.line), Word("serve", spec.line), Word(model.text, model.line), *words),
        image="/".join(part for part in (registry, image) if part),
        gpus=Given(gpus.text, Place(file, gpus.key_line)) if gpus is not None and gpus.text else None,
        variables=variables,
    )
    return served_by(container)


def _image_line(document: Node) -> int | None:
    """Where values name an image of vLLM."""
    for node in document.walk():
        repository, tag = node.said("repository"), node.said("tag")
        image = f"{repository}:{tag}" if repository and tag else repository or node.said("image")
        if image and is_vllm_image(image):
            return node.line
    return None


def _candidates(node: Node, name: str, around: tuple[Node, ...]) -> Iterator[_Found]:
    own = node.said("name") or name
    if _telling(node):
        yield _Found(own, node, around)
    for key, inner in node.keys.items():
        if key == "vllmConfig":
            continue
        yield from _candidates(inner, own if key in {"container", "deployment", "vllm"} else key, (*around, node))
    for index, item in enumerate(node.items):
        yield from _candidates(item, item.said("name") or f"{name}[{index}]", (*around, node))


def _telling(node: Node) -> bool:
    if (
        kubeai.is_model(node)
        or node.get("vllmConfig") is not None
        or (node.get("modelURL") is not None and node.get("repository") is not None)
    ):
        return True
    words = [word.text for key in _ARGUMENTS for word in _listed(node, key)]
    if any(re.search(r"\bvllm\s+serve\b|vllm\.entrypoints", text) for text in [" ".join(words)]):
        return True
    flags = {word.partition("=")[0].split()[0].lstrip("-").replace("_", "-") for word in words if word.startswith("--")}
    return bool(flags & _TELLING)


def _listed(node: Node, key: str) -> list[Word]:
    found = node.get(key)
    if found is None:
        return []
    if isinstance(found.value, list):
        return [Word(item.value, item.line, script=item.script, script_line=item.script_line)
                for item in found.items if isinstance(item.value, str)]  # fmt: skip
    if not isinstance(found.value, str) or found.kind != "str":
        return []
    if _SEVERAL.search(found.value):
        return listed(found.script, found.script_line)
    return [Word(found.value, found.line)]


_SEVERAL = re.compile(r"^\s*--?[A-Za-z]\S*\s+\S|\bvllm\s+serve\s")
"""Arguments in one text, as charts write them that split it themselves: `extraArgs: "--max-model-len 8192 -tp 2"`."""


def _served(found: _Found, file: str) -> Served:
    if kubeai.is_model(found.node):
        return served_by(kubeai.served(found.node, found.name, file, found.node.key_line))
    container = _container(found, file)
    result = served_by(container) if container.entrypoint else Served()
    return result if result.commands or result.unread else _by_settings(found, container)


def _container(found: _Found, file: str) -> Container:
    """The container that a chart makes of a mapping, without what it makes of its settings."""
    node = found.node
    command = _listed(node, "command")
    kind, machine = node.said("requestGPUType") or "", node_of((*found.around, node), file, node)
    asked = of_resource(kind)
    image, release = found.images.around(found.path)
    return Container(
        name=found.name,
        file=file,
        line=node.key_line,
        words=(*command, *_arguments(node)),
        image=image,
        release=release,
        entrypoint=bool(command),
        gpu=machine.gpu,
        unclear=machine.unclear,
        gpus=resource_gpus(node, file) or _requested(node, file),
        device=device_of(node) or foreign(kind),
        devices=(
            *devices_of((*found.around, node), file, node),
            *machine.devices,
            *((asked,) if asked is not None else ()),
        ),
        nodes=None if production_stack.spread(node) else 1,
        variables=production_stack.variables(node, found.around) if _of_chart(node) else {},
    )


def _by_settings(found: _Found, container: Container) -> Served:
    """What a chart serves that writes the command itself: by its settings, and the arguments after them."""
    node = found.node
    words, of_chart = _arguments(node), _of_chart(node)
    extra = production_stack.settings(node) if of_chart else _settings(node)
    if not any(_flag(word) == "model" for word in words):
        model = _model(found)
        if model is None:
            why = "its arguments name no model, and neither does anything beside them"
            return Served(unread=(Unread(found.name, why, container.place),))
        extra = [*extra, *model]
    image = container.image if container.image and is_vllm_image(container.image) else "vllm"
    result = served_by(replace(container, words=(*extra, *words), image=image, entrypoint=False))
    return _remarked(result, production_stack.dropped(node, container.file)) if of_chart else result


def _arguments(node: Node) -> list[Word]:
    """Words after a command, whoever writes that."""
    return [word for key in _ARGUMENTS if key != "command" for word in _listed(node, key)]


def _of_chart(node: Node) -> bool:
    """Whether it is a model of the production stack's chart, on one node."""
    return production_stack.is_model(node) and not production_stack.spread(node)


def _remarked(served: Served, remarks: Iterable[Remark]) -> Served:
    """The same with remarks on every command."""
    more = tuple(remarks)
    commands = tuple(replace(command, noted=(*command.noted, *more)) for command in served.commands)
    return Served(commands, served.unread, served.lines)


def _requested(node: Node, file: str) -> Placed | None:
    """The production stack's number of GPUs."""
    count = node.get("requestGPU")
    return Given(str(count.text), Place(file, count.key_line)) if count is not None and count.text else None


def _flag(word: Word) -> str:
    return word.text.partition("=")[0].split(" ")[0].lstrip("-").replace("_", "-") if word.text.startswith("--") else ""


def _model(found: _Found) -> list[Word] | None:
    """A model named beside the arguments, or one level up."""
    for node in found.path:
        for key in _MODELS:
            named = node.get(key)
            if named is None or key == "repository":
                continue
            text = named.text or next((said for inner in _NAMES if (said := named.said(inner))), None)
            if text is not None:
                return [Word("--model", named.line), Word(text.removeprefix("hf://"), named.line)]
    return None


def _settings(node: Node) -> list[Word]:
    """The production stack's `vllmConfig`: flags in camel case, and `extraArgs`; some stand beside the model."""
    holders = [holder for holder in (node.get("model"), node.get("vllmConfig")) if holder is not None]
    words: list[Word] = []
    for key, value in (entry for holder in holders for entry in holder.keys.items()):
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", key).lower()
        if key == "extraArgs":
            words += [Word(item.value, item.line) for item in value.items if isinstance(item.value, str)]
        elif value.kind == "bool" and names.takes(name, None) == "switch":
            words.append(Word(f"--{'' if plain(value) else 'no-'}{name}", value.line))
        elif value.text and names.has(name):
            words += [Word(f"--{name}", value.line), Word(value.text, value.line)]
    return words
