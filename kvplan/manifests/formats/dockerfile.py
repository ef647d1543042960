"""Dockerfiles: what an image is built from, what is installed in it, and what it runs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kvplan.manifests.formats.scripts import process_of, requirements
from kvplan.manifests.installed.checkouts import last
from kvplan.manifests.installed.installs import Installed
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.installed.targets import built_for
from kvplan.manifests.installed.touching import SHELLS
from kvplan.manifests.processes.container import Container, Served
from kvplan.manifests.processes.serving import served_by
from kvplan.manifests.shell.options import option
from kvplan.manifests.shell.parser import Ran, Word, listed, pairs, surrounded
from kvplan.manifests.tree import Tree

_INSTRUCTION = re.compile(r"\s*(FROM|RUN|ENTRYPOINT|CMD|ENV|ARG|WORKDIR|COPY|ADD)\s+(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(slots=True)
class _Stage:
    """A stage of a Dockerfile as far as it was read.

    last: its ENTRYPOINT and CMD. line: where the last of them stands. own: whether its CMD is its own, which no ENTRYPOINT
    takes away. installed: what is in it. ran: its commands. variables: what ENV sets. arguments: what ARG sets, for instructions alone: what the
    image runs doesn't find them. path: PATH, as ENV writes it. sources: what was copied into it.
    """

    image: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    last: dict[str, list[Word]] = field(default_factory=dict)
    line: int = 1
    own: bool = False
    installed: Installed = field(default_factory=Installed)
    ran: list[Ran] = field(default_factory=list)
    path: str = ""
    sources: list[str] = field(default_factory=list)

    @property
    def known(self) -> dict[str, str]:
        """What an instruction finds set; ENV comes before ARG."""
        return {**self.arguments, **self.variables}

    def take(self, name: str, rest: str, first: int, outer: Mapping[str, str]) -> None:
        """An instruction of this stage, on line `first`. outer: arguments before the first stage, which ARG lets in by their names."""
        if name == "ARG":
            words = listed(rest, first, self.known)
            self.arguments |= {word.text: outer[word.text] for word in words if word.text in outer} | dict(pairs(words))
        elif name == "ENV":
            words = listed(rest, first, self.known)
            old = len(words) > 1 and "=" not in words[0].text  # ENV NAME value
            self.variables |= {words[0].text: words[1].text} if old else dict(pairs(words))
            for setting in [Word(f"{words[0].text}={words[1].text}", first)] if old else words:
                if setting.text.startswith("PATH="):
                    self.path = setting.text.partition("=")[2]
                if setting.text.startswith(("PATH=", "PYTHONPATH=")):
                    self.installed = self.installed.in_image(setting)
        elif name == "RUN":
            script = surrounded(_layered(rest), first, self.known, installed=self.installed)
            # In a shell of its own, which begins in the same folder and environment as the others.
            after = script.installed
            self.installed = replace(self.installed, held=after.held, checkouts=after.checkouts)
            self.ran += script.commands
        elif name == "WORKDIR":
            self.installed = replace(self.installed, folder=last(rest.strip().strip("\"'")))
        else:
            self.last[name], self.line = _said(rest, first), first
            self.own = self.own or name == "CMD"
            if not self.own:
                self.last.pop("CMD", None)


_FLAGS = re.compile(r"(?:--[a-z-]+(?:=\S+)?[\s\\]+)+")


_DOCUMENT = re.compile(r"(?<!<)<<-?([\"']?)(\w+)\1", re.ASCII)
"""The beginning of a here-document."""
_SHELLS = re.compile(rf"(?:\S*/)?(?:{'|'.join(sorted(SHELLS))})?(?:\s+-\S+|\s+pipefail)*\s*", re.ASCII)
"""What reads it, where that is a shell."""


def _layered(rest: str) -> str:
    """The script of a RUN, without its own flags; of words in brackets the command that they are."""
    flags = _FLAGS.match(rest)
    plain = rest[flags.end() :] if flags else rest
    document = _DOCUMENT.search(plain)
    if document is not None and _SHELLS.fullmatch(plain[: document.start()]):
        return plain[document.end() :].rpartition("\n")[0]
    try:
        words = json.loads(plain)
    except ValueError:
        return plain
    return shlex.join(map(str, words)) if isinstance(words, list) else plain


def built(text: str, file: str, tree: Tree) -> Served:
    """What a Dockerfile's image serves: its last entry point and command, over the image it is built from."""
    found = image(text, file, tree)
    # Nothing of its own: none was written, or the image's was taken away by `ENTRYPOINT []`.
    if found is None or not (found.entrypoint or found.command):
        return Served()
    container = process_of([*found.entrypoint, *found.command], file, tree, found.variables)
    return served_by(replace(found.started(container), name=file.rpartition("/")[2], line=found.line))


@dataclass(frozen=True, slots=True)
class Image:
    """What a Dockerfile makes.

    base: the image that it is built from. own: whether that one's entry point is replaced. line: where the last of its entry point and command stands. target: what its vLLM was built for, where that is no GPU of NVIDIA's or AMD's.
    """

    base: str
    entrypoint: tuple[Word, ...]
    command: tuple[Word, ...]
    own: bool
    line: int
    variables: Mapping[str, str]
    installed: Installed
    target: str | None

    def started(self, container: Container) -> Container:
        """A container of it, which runs its words."""
        return replace(
            container,
            image=self.base,
            entrypoint=container.entrypoint and self.own,
            built=self.target,
            installed=self.installed,
            release=self.installed.running(container.words),
        )


def _argued(rest: str, given: Mapping[str, str]) -> str:
    """The words of an ARG, with what the build is given in the place of its own values."""
    names = ((word, word.partition("=")[0]) for word in rest.split())
    return " ".join(f"{name}={shlex.quote(given[name])}" if name in given else word for word, name in names)


def _stages(text: str, file: str, tree: Tree, given: Mapping[str, str]) -> tuple[list[_Stage], Mapping[str, _Stage]]:
    """The stages of a Dockerfile in their order, and those that have names by these. given: arguments of the build."""
    arguments: dict[str, str] = {}
    stages: dict[str, _Stage] = {}
    every: list[_Stage] = []
    stage: _Stage | None = None
    for first, instruction in _instructions(text):
        match = _INSTRUCTION.fullmatch(instruction)
        if match is None:
            continue
        name, rest = match[1].upper(), match[2]
        if name == "ARG" and given:
            rest = _argued(rest, given)
        if name == "FROM":
            stage = _from(rest, arguments, stages)
            stage.installed = replace(stage.installed, find=partial(_copied_in, file, tree, stage.sources))
            every.append(stage)
        elif name == "ARG" and stage is None:
            arguments |= dict(pairs(listed(rest, first, arguments)))
        elif name in {"COPY", "ADD"}:
            if stage is not None:
                stage.installed = _copied(rest, first, stage, stages)
                stage.sources += _sources(rest, first)
        elif stage is not None:
            stage.take(name, rest, first, arguments)
    return every, stages


def _sources(rest: str, line: int) -> list[str]:
    """What `COPY SOURCE... TARGET` copies that lies beside the Dockerfile."""
    words = listed(rest, line)
    places = [word.text for word in words if not word.text.startswith("--")]
    return places[:-1] if option(words, "--from") is None else []


def _copied_in(file: str, tree: Tree, sources: Sequence[str], path: str, _folder: str) -> str | None:
    """The text of a file that an image has by being copied from beside its Dockerfile; None for one that is ambiguous or isn't here."""
    whole = path.removeprefix("./")
    found = {source for source in sources if last(source) == last(path)}
    if not found and not path.startswith(("/", "~", "..")) and not {".", "./"}.isdisjoint(sources):
        found = {whole}
    return requirements(file, tree, found.pop(), "") if len(found) == 1 else None


def image(
    text: str, file: str, tree: Tree, given: Mapping[str, str] | None = None, target: str | None = None
) -> Image | None:
    """What a Dockerfile builds; None for nothing. given: arguments of the build. target: the stage that is asked for, the last one for None."""
    every, named = _stages(text, file, tree, given or {})
    stage = named.get(target.lower()) if target is not None else next(reversed(every), None)
    if stage is None:
        return None
    entrypoint, command = (tuple(stage.last.get(name, [])) for name in ("ENTRYPOINT", "CMD"))
    built_on = built_for(ran for each in every for ran in each.ran)
    own = "ENTRYPOINT" in stage.last
    return Image(stage.image, entrypoint, command, own, stage.line, stage.variables, stage.installed.image, built_on)


def _copied(rest: str, line: int, over: _Stage, stages: Mapping[str, _Stage]) -> Installed:
    """What is installed after `COPY --from=STAGE`, which may be the environment of that stage or image, and after files of packages."""
    words, before = listed(rest, line), over.installed
    source = option(words, "--from")
    stage = _Stage() if source is None else stages.get(source.text.lower(), _Stage(source.text))
    places = [word.text.rstrip("/") for word in words if not word.text.startswith("--")]
    if len(places) == 2 and places[0] == places[1] and not before.held and "vllm" not in over.image + stage.image:
        carried = stage.installed.within(places[0], stage.path)
        if carried:
            return replace(before, held=carried)
    if any("-packages" in word.text for word in words[1:]):
        return before.doubted(Pin(f"COPY {rest}"[:100], line, "touched"))
    if source is None or (not stage.installed.held and "vllm" not in stage.image):
        return before
    return before.doubted(Pin(f"COPY {rest}"[:100], line, "unclear"))


def _from(rest: str, arguments: Mapping[str, str], stages: dict[str, _Stage]) -> _Stage:
    """The stage that `FROM IMAGE AS NAME` begins; over another stage it begins as that one ended."""
    words = [word.text for word in listed(rest, 1, arguments) if not word.text.startswith("--")]
    image = words[0] if words else ""
    under = stages.get(image.lower())
    stage = (
        _Stage(image)
        if under is None
        else _Stage(
            under.image,
            {**under.variables},
            {**under.arguments},
            {**under.last},
            under.line,
            installed=under.installed,
            path=under.path,
            sources=[*under.sources],
        )
    )
    if len(words) == 3 and words[1].lower() == "as":
        stages[words[2].lower()] = stage
    return stage


_DOCUMENTED = re.compile(r"\s*(?:RUN|COPY|ADD)\s", re.IGNORECASE)
"""Instructions that here-documents may follow."""


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    held, first, ends = "", 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#") and not ends:
            continue
        first = first if held else number
        held += line.rstrip()
        if held.endswith("\\"):
            held = held[:-1] + "\\\n"
            continue
        document = _DOCUMENT.search(held) if _DOCUMENTED.match(held) else None
        if document is not None and not ends and re.search(rf"\n\s*{document[2]}\s*(?:\n|$)", text):
            ends = document[2]
        if ends and line.strip() != ends:
            held += "\n"
            continue
        yield first, held
        held = ends = ""
    if held:
        yield first, held


def _said(rest: str, line: int) -> list[Word]:
    """Words of the JSON form, or a shell's script."""
    try:
        items = json.loads(rest.replace("\\\n", " "))
    except ValueError:
        items = None
    if isinstance(items, list):
        return [Word(str(item), line) for item in items]
    return [Word("sh", line), Word("-c", line), Word(rest, line)]
