"""Docker Compose files: each service's image, entry point, command and environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import join, normpath

from kvplan.errors import BadFile
from kvplan.manifests.devices.accelerators import AMD, AMD_DEVICE, Device, of_ids
from kvplan.manifests.flags.command import Configured, FindConfig
from kvplan.manifests.formats.dockerfile import image
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.places import Given, Place, Placed, Unread
from kvplan.manifests.processes.container import Container, Served, nothing
from kvplan.manifests.processes.environment import handed
from kvplan.manifests.processes.mounts import ANYWHERE, Mount, hidden, outside, volume
from kvplan.manifests.processes.serving import served_by
from kvplan.manifests.shell.brackets import closing
from kvplan.manifests.shell.parser import Word, commands
from kvplan.manifests.tree import Tree, beside, read_text
from kvplan.manifests.yaml_nodes import Node

_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|(?P<name>[A-Za-z_]\w*)|(?P<open>\{))", re.ASCII)
_BRACED = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-+?])(?P<other>.*))?", re.ASCII | re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)#.*")


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
        whole = _extended(service, services.keys) if services is not None else service
        if whole is None:
            why = f"it extends a service of {service.said('extends', 'file')}, which isn't read here"
            found += Served(unread=(Unread(name, why, Place(file, service.key_line)),))
        else:
            found += served_by(_container(name, whole, file, variables, document, tree))
    return found


def _extended(service: Node, services: Mapping[str, Node], depth: int = 0) -> Node | None:
    """A service over the one that it extends; None where that one stands in another file and may serve something."""
    extends = service.get("extends")
    if extends is None or depth > MOST_EXTENDED:
        return service
    base = services.get(extends.said("service") or extends.text or "")
    if extends.get("file") is not None:
        told = " ".join(node.text or "" for node in service.walk())
        return None if "vllm" in told or "--model" in told else service
    under = _extended(base, services, depth + 1) if base is not None else None
    return service if under is None else replace(service, value={**under.keys, **service.keys})


MOST_EXTENDED = 8


def _dot_env(file: str, tree: Tree) -> dict[str, str]:
    """Variables of the `.env` beside the file, which Compose reads by itself."""
    try:
        text = read_text(tree, beside(file, ".env"))
    except BadFile:
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name.strip().removeprefix("export ").strip()] = _plain_value(value.strip(), found)
    return found


def _plain_value(text: str, known: Mapping[str, str]) -> str:
    """The value of a line of `.env`: quotes end it, ` #` begins a comment, and variables of earlier lines are replaced."""
    quote = text[:1]
    if quote in {"'", '"'} and (end := text.find(quote, 1)) > 0:
        inner = text[1:end]
        return inner if quote == "'" else _interpolated(inner, known)[0]
    return _interpolated(_COMMENT.sub("", text, count=1).rstrip(), known)[0]


def _container(name: str, service: Node, file: str, known: Mapping[str, str], document: Node, tree: Tree) -> Container:
    entrypoint, command = service.get("entrypoint"), service.get("command")
    words = [word for node in (entrypoint, command) if node is not None for word in _words(node, known)]
    variables = _environment(service, known)
    container = Container(
        name=name,
        file=file,
        line=service.key_line,
        words=tuple(words),
        image=_interpolated(service.said("image") or "", known)[0],
        entrypoint=entrypoint is not None and entrypoint.value not in ("", []),
        variables=variables if service.get("gpus") is None and not _reserved(service) else handed(variables),
        find=_configs(service, document, file, tree, known),
        gpus=_gpus(service, file),
        devices=tuple(_devices(service)),
        mounts=tuple(_mounts(service, known)),
        folder=service.said("working_dir"),
    )
    build = service.get("build")
    return container if build is None or not words else _built(container, build, known, tree)


def _built(container: Container, build: Node, known: Mapping[str, str], tree: Tree) -> Container:
    """A container with words of its own, of the image that `build` makes; it has that image's entry point, unless it replaces it."""
    context = _interpolated(build.said("context") or build.text or ".", known)[0]
    recipe = _interpolated(build.said("dockerfile") or "Dockerfile", known)[0]
    why = f"what is built from {context[:100]} doesn't say which vLLM it holds"
    container = replace(
        container, recipe=normpath(join(context, recipe)), release=Pin(context, build.key_line, "unclear", why=why)
    )
    file, inline = beside(container.file, join(context, recipe)), build.said("dockerfile_inline")
    if "://" in context:
        return container
    try:
        text = inline if inline is not None else read_text(tree, file)
    except BadFile:
        return container
    found = image(text, file, tree, _environment(build, known, "args"), build.said("target"))
    if found is None:
        return container
    own = () if container.entrypoint else found.entrypoint
    started = found.started(
        replace(
            container,
            words=(*(replace(word, line=container.line) for word in own), *container.words),
            entrypoint=True,
            variables={**found.variables, **container.variables},
        )
    )
    release = started.release and replace(started.release, line=container.line)
    return replace(started, entrypoint=container.entrypoint or started.entrypoint, release=release)


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
    """Text with `${NAME:-default}` replaced as Compose does, nested ones too, and the first reference that can't be."""
    out: list[str] = []
    unknown: list[str] = []
    at = 0
    while match := _VARIABLE.search(text, at):
        out.append(text[at : match.start()])
        at = match.end()
        if match["escaped"]:
            out.append("$")
            continue
        if match["open"]:
            at = closing(text, match.end() - 1, "{")
        source = text[match.start() : at]
        value, missing = _value(match["name"] or source[2:-1], source, known)
        out.append(value)
        unknown += [missing] if missing is not None else []
    return "".join([*out, text[at:]]), unknown[0] if unknown else None


def _value(inside: str, source: str, known: Mapping[str, str]) -> tuple[str, str | None]:
    """What one reference stands for, and the reference that isn't known in it."""
    match = _BRACED.fullmatch(inside)
    if match is None:
        return source, None
    held, how, other = known.get(match["name"]), match["how"] or "", match["other"] or ""
    empty = held is None or (how.startswith(":") and not held)
    if how.endswith("-") and empty:
        return _interpolated(other, known)
    if how.endswith("+"):
        return ("", None) if empty else _interpolated(other, known)
    return (source, source) if held is None else (held, None)


def _environment(service: Node, known: Mapping[str, str], key: str = "environment") -> dict[str, str]:
    found = service.get(key)
    if found is None:
        return {}
    if found.keys:
        return {key: _interpolated(node.text, known)[0] for key, node in found.keys.items() if node.text is not None}
    pairs = ((item.text or "").partition("=") for item in found.items)
    return {name: _interpolated(value, known)[0] for name, equals, value in pairs if equals}


def _configs(service: Node, document: Node, file: str, tree: Tree, known: Mapping[str, str]) -> FindConfig:
    """Finds files that `volumes` or `configs` bring into the container."""
    mounts = list(_mounts(service, known))
    for item in _items(service, "configs"):
        source = item.said("source") or item.text or ""
        origin = document.said("configs", source, "file")
        if origin is not None:
            mounts.append((origin, item.said("target") or f"/{source}"))
    if not mounts:
        return nothing

    def find(path: str) -> Configured | None:
        host = outside(path, mounts)
        if host is None or not host.startswith((".", "/", "~")):
            return None
        name = beside(file, host)
        try:
            return Configured(name, read_text(tree, name))
        except BadFile:
            return None

    return find


def _mounts(service: Node, known: Mapping[str, str]) -> Iterator[Mount]:
    """What `volumes` and `tmpfs` mount, and where. known: variables."""
    yield from (_volume(item, known) for item in _items(service, "volumes"))
    tmpfs = service.get("tmpfs")
    for text in (tmpfs.text, *(item.text for item in tmpfs.items)) if tmpfs is not None else ():
        yield from [(None, text.partition(":")[0])] if text else []
    if _items(service, "volumes_from"):
        yield ANYWHERE


def _volume(item: Node, known: Mapping[str, str]) -> Mount:
    if item.text is not None:
        return volume(_interpolated(item.text, known)[0])
    source, target = (_interpolated(item.said(key) or "", known)[0] for key in ("source", "target"))
    bind = item.said("type") in {None, "bind"}
    return volume(f"{source if bind else hidden('$it')}:{target}")


def _items(node: Node, key: str) -> Sequence[Node]:
    found = node.get(key)
    return found.items if found is not None else ()


def _devices(service: Node) -> Iterator[Device]:
    """Device files of AMD's GPUs, and slices among the GPUs that are reserved."""
    if any((item.text or "").startswith(AMD_DEVICE) for item in _items(service, "devices")):
        yield Device(AMD_DEVICE, AMD)
    for device in _reserved(service):
        ids = device.get("device_ids")
        for item in ids.items if ids is not None else ():
            yield from of_ids("device_ids", item.text or "")


def _reserved(service: Node) -> list[Node]:
    """GPUs that a service reserves, by either way of saying so."""
    reserved = service.get("deploy", "resources", "reservations", "devices")
    return [*(reserved.items if reserved is not None else ()), *_items(service, "gpus")]


def _gpus(service: Node, file: str) -> Placed | None:
    """How many GPUs the reservation asks for; None for `all`."""
    for device in _reserved(service):
        ids, count = device.get("device_ids"), device.get("count")
        if ids is not None and ids.items:
            return Given(str(len(ids.items)), Place(file, ids.key_line))
        if count is not None and (count.text or "").isdigit():
            return Given(str(count.text), Place(file, count.key_line))
    return None
