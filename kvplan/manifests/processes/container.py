"""A container or process as a file describes it, and what a file serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvplan.manifests.devices.accelerators import Device
from kvplan.manifests.flags.command import Command, FindConfig
from kvplan.manifests.installed.images import elsewhere, image_version, is_vllm_image, likely_version, unsaid
from kvplan.manifests.installed.installs import Installed
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.installed.touching import shadows
from kvplan.manifests.places import Hidden, Inside, Outside, Place, Placed, Unread
from kvplan.manifests.processes.folders import OWN, joined
from kvplan.manifests.processes.mounts import Mount, outside
from kvplan.manifests.shell.parser import Word


def nothing(_path: str) -> None:
    """A config that isn't here."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container or process. words: its command and arguments. image: None outside of containers.

    entrypoint: whether `words` begin with a program, or continue the image's own entry point. variables: what is known
    of its environment. elsewhere: variables that it has too, whose values don't stand here. gpu: the accelerator its node is chosen by. unclear: sentences about what else is said of that. gpus: how many it asks for. nodes: how many containers
    like it serve together, None where that isn't known. devices: what else is said of its accelerator. device: what it asks for that is no GPU of NVIDIA's or AMD's.
    inner: its own name beside others of the same object. installed: what is before the command, in which environments. release: the vLLM
    that it runs of these; None where it is the image's. named: containers that commands before it
    have given names to, and images as files. mounts: what is mounted, and where. folder: where its relative paths begin: a
    folder of this machine seen from the file's own, or an absolute one of the container; None where that isn't known. away: whether it
    runs on another machine than the one whose files it may name, or in a container that nobody describes here.
    built: what its vLLM was built for, where that is no GPU of NVIDIA's or AMD's. recipe: the Dockerfile that its image is built from.
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
    installed: Installed = field(default_factory=Installed)
    release: Pin | None = None
    named: Mapping[str, Container] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    folder: str | None = None
    away: bool = False
    built: str | None = None
    recipe: str | None = None

    @property
    def place(self) -> Place:
        """Where it begins."""
        return Place(self.file, self.line)

    @property
    def version(self) -> str | None:
        """The release of vLLM that it has or probably has, as written; None where that isn't known."""
        if self._own is not None:
            return self._own.release
        return (image_version(self.image) or likely_version(self.image)) if self.image else None

    @property
    def certain(self) -> str | None:
        """The release that it certainly has."""
        return None if self.anywhere else self.version

    @property
    def unsaid(self) -> tuple[str, Place] | None:
        """What doesn't say which vLLM it is, as the beginning of a sentence, and where that stands; None where nothing does so."""
        own = self._own
        if own is not None and own.kind in {"unclear", "doubted"}:
            return own.reason, Place(self.file, own.line)
        if own is None and self.image and unsaid(self.image) is not None:
            return f"{self.image[:100]} doesn't say which vLLM it holds", self.place
        return None

    @property
    def anywhere(self) -> bool:
        """Whether nobody can tell which vLLM it is, so that nothing of a release holds for it."""
        own = self._own
        return elsewhere(self.image or "") if own is None else own.kind in {"unclear", "doubted"}

    def outside(self, path: Placed) -> Placed:
        """A model as the command names it, by where it lies outside of the container, if that stands in the file."""
        name = str(path.value)
        sure = name.startswith(("/", ".", "~")) or name.endswith(_FILES)
        if self.away:
            return Inside(name, path.place, where=_AWAY, sure=sure)
        own = self.folder is not None and not self.folder.startswith("/")  # where this machine's files are
        if (self.image is None and name.startswith("/")) or (own and self.folder == OWN and not name.startswith("/")):
            return path
        whole = name if name.startswith(("/", "~")) else joined(self.folder, name)
        host = self._outside(whole, own=own, sure=sure) if whole is not None and path.place.file == self.file else None
        if host is not None:
            return Outside(host, path.place, written=name)
        return Inside(name, path.place, where=self._where, sure=sure)

    def _outside(self, path: str, *, own: bool, sure: bool) -> str | None:
        """Where a path lies on this machine; None where that can't be told. own: whether relative ones do. sure: whether it is one."""
        if path.startswith("/") and self.image is not None:
            return self._mounted(path)
        return path if (own and sure) or self.find(f"{path}/config.json") is not None else None

    @property
    def _where(self) -> str:
        """Where its relative paths are, as the end of a sentence."""
        if self.image is not None:
            return "in its container"
        return "where it runs, which isn't known" if self.folder is None else f"in {self.folder}, where it runs"

    def _mounted(self, path: str) -> str | None:
        """Where a path lies that is mounted from the file's own folder, or from one with a model that can be looked at."""
        host = outside(path, self.mounts) or ""
        looked = host.startswith("/") and any(self.find(f"{each}/config.json") for each in (host, path))
        return host if host.startswith(".") or looked else None

    @property
    def _own(self) -> Pin | None:
        """What is installed over what the image holds."""
        pin, path = self.release, self.variables.get("PYTHONPATH", "")
        if shadows(path):
            shadowing, before = Pin(f"PYTHONPATH={path}", self.line, "touched"), pin
            pin = shadowing if before is None or before.release is None else shadowing.doubting(before.release)
        if pin is None or pin.kind == "any":
            return None
        image = self.image or ""
        if pin.kind in {"touched", "listed"}:
            if (release := image_version(image)) is not None:
                return pin.doubting(release)
            # an image that says no release leaves nothing to doubt
            return replace(pin, kind="unclear") if pin.kind == "listed" else None
        return replace(pin, kind="unclear") if pin.kind == "newest" and is_vllm_image(image) else pin


_FILES = (".gguf", ".json")
"""What a model's file is called."""
_AWAY = "where it runs, which isn't here"


def away(outer: Container, words: Sequence[Word]) -> Container:
    """A process on another machine: it has nothing of the shell's environment, of the job's GPUs, and of this machine's files. words: what starts it."""
    return replace(
        outer,
        away=True,
        variables={},
        gpu=None,
        unclear=(),
        gpus=None,
        devices=(),
        find=nothing,
        built=None,
        installed=outer.installed.moved(words),
    )


@dataclass(frozen=True, slots=True)
class Served:
    """What a file serves, and what in it couldn't be read. lines: where commands of either kind begin."""

    commands: tuple[Command, ...] = ()
    unread: tuple[Unread, ...] = ()
    lines: frozenset[int] = frozenset()

    def __add__(self, other: Served) -> Served:
        return Served(self.commands + other.commands, self.unread + other.unread, self.lines | other.lines)


def served(command: Command) -> Served:
    """What a command serves, which is left unread where only whoever runs it knows its model, or another value that a plan is made of."""
    hidden = next((placed for placed in command.layer.values() if isinstance(placed, Hidden)), None)
    if hidden is None and ("model",) in command.layer:
        return Served((command,))
    why, place = ("it names no model", command.place) if hidden is None else (hidden.why, hidden.place)
    return Served(unread=(Unread(command.name, why, place, command=command),))
