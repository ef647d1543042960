"""Containers without a daemon: Apptainer and Singularity, Shifter, Enroot; images by their addresses and as files.

Source: https://apptainer.org/docs/user/latest (docker and oci, environment, gpu), https://docs.nersc.gov/development/containers/shifter,
https://github.com/NVIDIA/enroot doc/cmd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kvplan.manifests.devices.accelerators import AMD, NVIDIA, Device
from kvplan.manifests.installed.images import image_version, is_vllm_image
from kvplan.manifests.installed.installs import Installed
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.processes.container import Container
from kvplan.manifests.processes.mounts import Mount, bound, described
from kvplan.manifests.shell.options import operands, option, options, program
from kvplan.manifests.shell.parser import Word

_APPTAINERS = frozenset({"apptainer", "singularity"})
_PROGRAMS = _APPTAINERS | {"shifter", "enroot"}
_MOST_BEFORE = 40
"""Words that may stand before one of these: srun's options."""
_VALUED = frozenset({
    "-B", "--bind", "--mount", "--env", "--env-file", "-H", "--home", "--pwd", "--cwd", "-W", "--workdir", "-S", "--scratch", "-o", "--overlay",
    "--network", "--network-args", "--app", "--dns", "--hostname", "--security", "--add-caps", "--drop-caps", "--apply-cgroups",
    "--fusemount", "--image", "--volume", "-V", "--module", "-m", "-w", "-c", "--conf", "-e",
})  # fmt: skip
"""Options that take a value."""
_APPTAINERS_VALUED = _VALUED - {"-c", "-e", "-w", "-V", "-m"}
_FILE = re.compile(r"\.(?:sif|simg|img|sqsh|sqfs|squashfs)$", re.ASCII)
_SCHEME = re.compile(r"^(?:docker|docker-daemon|docker-archive|oras|library|dockerd|podman)(?:://|:(?=[a-z]))")
_INSTANCE = "instance://"
"""How a container is called that `apptainer instance start IMAGE NAME` has started."""
_PULLED = re.compile(r"(?:^|[+_-])vllm-openai[+_-](v?0\.\d[\w.]*)$", re.ASCII)
"""The name that `apptainer pull` and `enroot import` give the image of vLLM's, and that people do."""


class _Start(NamedTuple):
    """A command that starts another: its program, the options, the image, whether its own entry point runs, and what follows it."""

    program: str
    options: Sequence[Word]
    image: Word | None
    itself: bool
    words: Sequence[Word]


def starts(words: Sequence[Word]) -> bool:
    """Whether a command starts another one in such a container."""
    return _start(words) is not None


def started(words: Sequence[Word], outer: Container) -> Container | None:
    """The process that `apptainer exec IMAGE COMMAND`, `shifter --image=IMAGE COMMAND` or `enroot start NAME COMMAND` starts."""
    start = _start(words)
    if start is None:
        return None
    box = contained(start.image, outer) if start.image is not None else outer.named.get(JOBS, outer)
    return replace(
        outer,
        words=tuple(start.words),
        image=box.image,
        entrypoint=not (start.itself and is_vllm_image(box.image or "")),
        installed=box.installed,
        built=box.built,
        release=box.release,
        variables={**({} if _clean(start) else outer.variables), **dict(_variables(start))},
        devices=(*outer.devices, *_devices(start.options)),
        mounts=tuple(_mounts(start)),
        folder=outer.folder if _stays(start) else None,
        line=words[0].line,
    )


JOBS = ""
"""The name of the image that the header of a batch script names."""


def _start(words: Sequence[Word]) -> _Start | None:
    """The parts of a command that starts another; None for one that doesn't."""
    at = next((at for at, word in enumerate(words[:_MOST_BEFORE]) if program(word) in _PROGRAMS), None)
    if at is None or (at > 0 and words[at - 1].text.startswith("-")):
        return None
    name, rest = program(words[at]), words[at + 1 :]
    if name == "shifter":
        first = next(operands(rest, _VALUED), len(rest))
        return _Start(name, rest[:first], option(rest[:first], "--image"), itself=False, words=rest[first:])
    places = list(operands(rest, _VALUED if name == "enroot" else _APPTAINERS_VALUED))
    verbs, places = [rest[index].text for index in places[:2]], places[1:]
    named = verbs[:2] == ["instance", "run"]  # whose image is followed by the name of the instance
    if named:
        verbs, places = verbs[1:], places[1:]
    if verbs[:1] not in ([["start"]] if name == "enroot" else [["exec"], ["run"]]) or not places:
        return None
    image = places[0]
    return _Start(name, rest[:image], rest[image], verbs[0] == "run", rest[image + (2 if named else 1) :])


def contained(image: Word, outer: Container) -> Container:
    """A process in an image, by its address or as a file, whatever is installed outside of it."""
    text = image.text.removeprefix("./")
    if (known := outer.named.get(text)) is not None:
        return replace(
            outer, image=known.image, entrypoint=True, installed=Installed(), built=None, release=known.release
        )
    called, pin = _image(image)
    return replace(outer, image=called, entrypoint=True, installed=Installed(), built=None, release=pin)


def _image(word: Word) -> tuple[str, Pin | None]:
    """An image's name as docker would call it, and what else is said of the vLLM in it."""
    text = _SCHEME.sub("", word.text).replace("#", "/")
    name = text.rpartition("/")[2]
    unclear = Pin(word.text, word.line, "unclear")
    if word.unknown is not None or text.startswith(_INSTANCE):
        return name, unclear
    if not (_FILE.search(name) or ("://" not in word.text and (text.startswith(("/", ".", "~")) or "/" not in text))):
        return text, None
    name = _FILE.sub("", name)
    if match := _PULLED.search(name):
        return f"vllm/vllm-openai:{match[1]}", None
    version = image_version(f"x:{name}")
    return name, Pin(word.text, word.line, "exact", version) if version is not None else unclear


def named(words: Sequence[Word], outer: Container) -> Iterator[tuple[str, Container]]:
    """Files and names that a command makes of an image: `apptainer pull FILE IMAGE`, `enroot import -o FILE IMAGE`."""
    at = next((at for at, word in enumerate(words[:3]) if program(word) in _APPTAINERS | {"enroot"}), None)
    if at is None:
        return
    rest = words[at + 1 :]
    verb = rest[0].text if rest else ""
    texts = [
        rest[1:][index]
        for index in operands(rest[1:], frozenset({"-o", "--output", "-n", "--name", "-a", "--arch", "--dir"}))
    ]
    if verb in {"pull", "build"} and len(texts) > 1 and _SCHEME.match(texts[1].text):
        yield texts[0].text.removeprefix("./"), contained(texts[1], outer)
    started = [rest[at] for at in operands(rest, _APPTAINERS_VALUED)]
    if [word.text for word in started[:2]] in (["instance", "start"], ["instance", "run"]) and len(started) > 3:
        yield _INSTANCE + started[3].text, contained(started[2], outer)
    file = next(options(rest, "-o", "--output") if verb == "import" else options(rest, "-n", "--name"), None)
    if verb in {"import", "create"} and texts and file is not None:
        yield file.text.removeprefix("./"), contained(texts[0], outer)


def _clean(start: _Start) -> bool:
    """Whether the environment outside is left there."""
    given = {word.text for word in start.options}
    return start.program in _APPTAINERS and not given.isdisjoint({"-e", "--cleanenv", "-C", "--containall"})


def _variables(start: _Start) -> Iterator[tuple[str, str]]:
    """What options put into the environment: `--env A=b,C=d` of Apptainer, `-e A=b` of the others."""
    for word in options(start.options, "--env", *(() if start.program in _APPTAINERS else ("-e",))):
        for each in word.text.split(",") if _LISTED.fullmatch(word.text) else (word.text,):
            key, equals, value = each.partition("=")
            if equals:
                yield key, value


_LISTED = re.compile(r"\w+=[^,]*(?:,[A-Za-z_]\w*=[^,]*)*", re.ASCII)
"""Several settings in one; a comma in a value is followed by no name."""


def _mounts(start: _Start) -> Iterator[Mount]:
    """What options mount, and of Apptainer the home folder, unless it is told not to."""
    yield from bound(start.options, *_MOUNTING)
    yield from described(start.options)
    if start.program in _APPTAINERS and _ALONE.isdisjoint(word.text for word in start.options):
        home = str(Path.home())
        yield home, home


def _stays(start: _Start) -> bool:
    """Whether it runs in the folder outside, which Apptainer and Shifter share with it unless they are told not to."""
    texts = {word.text.partition("=")[0] for word in start.options}
    return start.program != "enroot" and texts.isdisjoint(_ALONE - {"--no-home", "-H", "--home"} | _MOVING)


_MOVING = frozenset({"--pwd", "--cwd", "-W", "--workdir"})
_MOUNTING = ("-B", "--bind", "--volume", "-V", "--mount", "-m")
_ALONE = frozenset({"--no-home", "-H", "--home", "-c", "--contain", "-C", "--containall", "--no-mount"})
"""Options of Apptainer that leave the home folder outside, or put another one there."""


def _devices(words: Sequence[Word]) -> Iterator[Device]:
    """Whose GPUs are let in."""
    for flags, vendor in ((("--nv", "--nvccli"), NVIDIA), (("--rocm",), AMD)):
        yield from (Device(word.text, vendor) for word in words if word.text in flags)
