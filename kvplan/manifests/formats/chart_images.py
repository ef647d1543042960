"""Images that Helm values name, and which of them runs the arguments in some other part of the values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kvplan.manifests.installed.images import image_device, image_version, is_vllm_image, split, unsaid
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.yaml_nodes import Node

_HOLDING = ("repository", "imageRepository")
"""Keys of an image's name beside others; `name` is one in a mapping that is called an image."""
_TAGS = ("tag", "imageTag")


@dataclass(frozen=True, slots=True)
class Named:
    """An image by its name and tag, and the line where it stands.

    apart: whether the tag is a value of its own, which a chart fills in. off: whether the part of the values is switched off.
    """

    text: str
    line: int
    apart: bool = False
    off: bool = False

    @property
    def idle(self) -> bool:
        """Whether it certainly isn't the image of GPUs that any other part of the values runs on."""
        return self.off or image_device(self.text) is not None or "rocm" in self.text

    @property
    def pin(self) -> Pin | None:
        """What is to be said of the vLLM in it that its name alone doesn't."""
        if is_vllm_image(self.text):
            left = self.apart and not split(self.text)[1] and "@" not in self.text
            return Pin(f"{self.text} without a tag", self.line, "unclear") if left else None
        version = image_version(self.text)
        if version is not None:
            return Pin(self.text, self.line, "exact", version)
        return Pin(self.text, self.line, "unclear") if unsaid(self.text) is not None else None


@dataclass(frozen=True, slots=True)
class Images:
    """Images of vLLM's in a document that stand beside none of its arguments. idle: of parts that are off, or for other devices."""

    rest: tuple[Named, ...] = ()
    idle: tuple[Named, ...] = ()

    @classmethod
    def of(cls, document: Node, holders: Iterable[Sequence[Node]]) -> Images:
        """holders: the mappings with arguments, each with those around it, the innermost first."""
        taken = {named.text for path in holders if (named := _nearest(path)) is not None}
        found = {named.text: named for named in _walk(document) if is_vllm_image(named.text)}
        rest = [named for text, named in found.items() if text not in taken]
        return cls(
            tuple(named for named in rest if not named.idle),
            tuple(named for named in rest if named.idle),
        )

    def around(self, path: Sequence[Node]) -> tuple[str, Pin | None]:
        """The image of arguments in these mappings, the innermost first, and what else is said of the vLLM in it."""
        own = _nearest(path)
        if own is None and len(self.rest) > 1:
            several = " or ".join(named.text for named in self.rest[:2])
            return "", Pin(several, self.rest[0].line, "unclear")
        found = own or next(iter(self.rest), None) or next(filter(None, map(_named, path)), None)
        if found is None and self.idle:
            return "", Pin(self.idle[0].text, self.idle[0].line, "unclear")
        return ("", None) if found is None else (found.text, found.pin)


def _nearest(path: Sequence[Node]) -> Named | None:
    """The image that arguments have themselves, or one of vLLM's that stands around them."""
    own = _named(path[0])
    outer = (named for node in path[1:] if (named := _named(node)) is not None and is_vllm_image(named.text))
    return own or next(outer, None)


def _named(node: Node) -> Named | None:
    """The image that a mapping names among its own entries."""
    image = node.get("image")
    if image is not None and (inner := _parts(image, (*_HOLDING, "name"))) is not None:
        return inner
    if image is not None and image.text:
        tag = next((said for key in _TAGS if (said := node.said(key))), None)
        bare = tag is not None and not split(image.text)[1] and "@" not in image.text
        return Named(f"{image.text}:{tag}" if bare else image.text, image.line)
    return _parts(node, _HOLDING)


def _parts(node: Node, keys: Iterable[str]) -> Named | None:
    """An image in parts: registry, repository, tag, digest."""
    holder = next((node.keys[key] for key in keys if node.said(key)), None)
    if holder is None or holder.text is None:
        return None
    registry, digest = node.said("registry"), node.said("digest")
    tag = next((said for key in _TAGS if (said := node.said(key))), None)
    text = f"{registry}/{holder.text}" if registry else holder.text
    text += f":{tag}" if tag else ""
    return Named(text + (f"@{digest}" if digest else ""), holder.line, apart=True)


def _walk(node: Node, called: str = "", *, off: bool = False) -> Iterator[Named]:
    """Every image in a part of the values, which is called so. off: whether the part around it is switched off."""
    image = "image" in called.lower()
    off = off or node.said("enabled") == "false"
    own = _parts(node, (*_HOLDING, "name")) if image else _named(node)
    if own is not None:
        yield replace(own, off=off)
    if image and node.text and called != "image":
        yield Named(node.text, node.line, off=off)
    for key, inner in node.keys.items():
        yield from _walk(inner, f"image {key}" if called == "images" else key, off=off)
    for item in node.items:
        yield from _walk(item, off=off)
