"""A container or process as whoever describes it says it, and what a file serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.manifests.accelerators import Device
from kvplan.manifests.command import Command, FindConfig
from kvplan.manifests.images import image_version, unsaid
from kvplan.manifests.said import Place, Placed, Unread
from kvplan.manifests.words import Word


def nothing(_path: str) -> None:
    """A config that isn't here."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container or process. words: its command and arguments. image: None outside of containers.

    entrypoint: whether `words` begin with a program, or continue the image's own entry point. variables: what is known
    of its environment. elsewhere: variables that it has too, whose values don't stand here. gpu: the accelerator its node is chosen by. unclear: sentences about what else is said of that. gpus: how many it asks for. nodes: how many containers
    like it serve together, None where that isn't known. devices: what else is said of its accelerator. device: what it asks for that is no GPU of NVIDIA's or AMD's.
    inner: its own name beside others of the same object. release: of vLLM, as it is installed before the command; None where
    nothing installs one.
    """

    name: str
    file: str
    line: int
    words: tuple[Word, ...]
    image: str | None = None
    entrypoint: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
    find: FindConfig = nothing
    gpu: Placed | None = None
    unclear: tuple[Placed, ...] = ()
    gpus: Placed | None = None
    nodes: int | None = 1
    device: str | None = None
    devices: tuple[Device, ...] = ()
    inner: str = ""
    release: str | None = None

    @property
    def place(self) -> Place:
        """Where it begins."""
        return Place(self.file, self.line)

    @property
    def version(self) -> str | None:
        """The release of vLLM that it has, as written; None where that isn't known."""
        return self.release or (image_version(self.image) if self.image else None)

    @property
    def unsaid(self) -> str | None:
        """What its image says in place of vLLM's version, where nothing else says that."""
        return unsaid(self.image) if self.image and self.release is None else None


@dataclass(frozen=True, slots=True)
class Served:
    """What a file serves, and what in it couldn't be read. lines: where commands of either kind begin."""

    commands: tuple[Command, ...] = ()
    unread: tuple[Unread, ...] = ()
    lines: frozenset[int] = frozenset()

    def __add__(self, other: Served) -> Served:
        return Served(self.commands + other.commands, self.unread + other.unread, self.lines | other.lines)
