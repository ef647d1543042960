"""Docker Compose files: each service's image, entry point, command and environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from kvplan.check.budget import Place
from kvplan.check.merge import Given, Placed
from kvplan.check.serving.command import Configured, FindConfig
from kvplan.check.serving.containers import Container, Served, nothing, served_by
from kvplan.check.serving.nodes import Node
from kvplan.check.serving.words import Word, commands
from kvplan.check.tree import Tree, beside, read_text
from kvplan.errors import BadFile

_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:?[-+?])(?P<other>[^}]*))?\})",
    re.ASCII,
)


def is_compose(document: Node) -> bool:
    """Whether a document lists services."""
    services = document.get("services")
    return services is not None and any(
        service.get("image") or service.get("build") or service.get("command") for service in services.keys.values()
    )


def served(document: Node, file: str, tree: Tree) -> Served:
    """What the services serve."""
    variables = _dot_env(file, tree)
    services = document.get("services")
    found = Served()
    for name, service in services.keys.items() if services is not None else ():
        found += served_by(_container(name, service, file, variables, document, tree))
    return found


def _dot_env(file: str, tree: Tree) -> dict[str, str]:
    """Variables of the `.env` beside the file, which Compose reads by itself."""
    try:
        text = read_text(tree, beside(file, ".env"))
    except BadFile:
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return {name.strip().removeprefix("export "): value.strip().strip("\"'") for name, equals, value in pairs if equals}


def _container(name: str, service: Node, file: str, known: Mapping[str, str], document: Node, tree: Tree) -> Container:
    entrypoint, command = service.get("entrypoint"), service.get("command")
    words = [word for node in (entrypoint, command) if node is not None for word in _words(node, known)]
    image = _interpolated(service.said("image") or "", known)[0]
    return Container(
        name=name,
        file=file,
        line=service.key_line,
        words=tuple(words),
        image=image,
        entrypoint=entrypoint is not None and entrypoint.value not in ("", []),
        variables=_environment(service, known),
        find=_configs(service, document, file, tree),
        gpus=_gpus(service, file),
    )


def _words(node: Node, known: Mapping[str, str]) -> list[Word]:
    """A list's items, or a text split as a shell would split it."""
    if isinstance(node.value, list):
        return [_word(item, known) for item in node.items]
    text, _ = _interpolated(node.script, known)
    return [word for command in commands(text.replace("\n", " \\\n") if "\\\n" not in text else text, node.script_line)
            for word in command]  # fmt: skip


def _word(node: Node, known: Mapping[str, str]) -> Word:
    text, unknown = _interpolated(node.value if isinstance(node.value, str) else "", known)
    script, _ = _interpolated(node.script, known)
    return Word(text, node.line, unknown, script, node.script_line)


def _interpolated(text: str, known: Mapping[str, str]) -> tuple[str, str | None]:
    """Text with `${NAME:-default}` replaced as Compose does, and the first reference that can't be."""
    unknown: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name, how = match["name"] or match["braced"], match["how"] or ""
        held = known.get(name)
        if how.endswith("-") and (held is None or (how == ":-" and not held)):
            return str(match["other"])
        if how.endswith("+"):
            return str(match["other"]) if held else ""
        if held is not None:
            return held
        unknown.append(match[0])
        return match[0]

    replaced = _VARIABLE.sub(value, text)
    return replaced, unknown[0] if unknown else None


def _environment(service: Node, known: Mapping[str, str]) -> dict[str, str]:
    found = service.get("environment")
    if found is None:
        return {}
    if found.keys:
        return {key: _interpolated(node.text, known)[0] for key, node in found.keys.items() if node.text is not None}
    pairs = ((item.text or "").partition("=") for item in found.items)
    return {name: _interpolated(value, known)[0] for name, equals, value in pairs if equals}


def _configs(service: Node, document: Node, file: str, tree: Tree) -> FindConfig:
    """Finds files that `volumes` or `configs` bring into the container."""
    mounts = [mount for mount in (_volume(item) for item in _items(service, "volumes")) if mount is not None]
    for item in _items(service, "configs"):
        source = item.said("source") or item.text or ""
        origin = document.said("configs", source, "file")
        if origin is not None:
            mounts.append((origin, item.said("target") or f"/{source}"))
    if not mounts:
        return nothing

    def find(path: str) -> Configured | None:
        for source, target in mounts:
            inside = _inside(path, target)
            if inside is None or not source.startswith((".", "/", "~")):
                continue
            name = beside(file, str(PurePosixPath(source) / inside) if inside else source)
            try:
                return Configured(name, read_text(tree, name))
            except BadFile:
                continue
        return None

    return find


def _inside(path: str, target: str) -> str | None:
    """The part of `path` below `target`; empty for the same path."""
    if path == target:
        return ""
    return path.removeprefix(target.rstrip("/") + "/") if path.startswith(target.rstrip("/") + "/") else None


def _volume(item: Node) -> tuple[str, str] | None:
    if item.text is not None:
        host, colon, rest = item.text.partition(":")
        return (host, rest.partition(":")[0]) if colon else None
    source, target = item.said("source"), item.said("target")
    return (source, target) if source and target else None


def _items(node: Node, key: str) -> Sequence[Node]:
    found = node.get(key)
    return found.items if found is not None else ()


def _gpus(service: Node, file: str) -> Placed | None:
    """How many GPUs the reservation asks for; None for `all`."""
    devices = service.get("deploy", "resources", "reservations", "devices")
    for device in devices.items if devices is not None else ():
        ids, count = device.get("device_ids"), device.get("count")
        if ids is not None and ids.items:
            return Given(str(len(ids.items)), Place(file, ids.key_line))
        if count is not None and (count.text or "").isdigit():
            return Given(str(count.text), Place(file, count.key_line))
    return None
