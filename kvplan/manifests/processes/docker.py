"""Commands that start containers: `docker run IMAGE ...`, `kubectl run NAME --image=IMAGE ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from kvplan.manifests.devices.accelerators import AMD, AMD_DEVICE, Device, of_ids
from kvplan.manifests.installed.images import is_vllm_image
from kvplan.manifests.installed.installs import Installed
from kvplan.manifests.places import Given, Place, Placed
from kvplan.manifests.processes.container import Container, away, nothing
from kvplan.manifests.processes.environment import DAEMONS, handed
from kvplan.manifests.processes.folders import joined
from kvplan.manifests.processes.mounts import ANYWHERE, Mount, described, volume
from kvplan.manifests.shell.options import operands, option, options, program
from kvplan.manifests.shell.parser import Word

_RUNNERS = frozenset({"docker", "podman", "nerdctl"})
_RUNNING = frozenset({"run", "create"})

TELLING = (
    "--max-model-len",
    "--gpu-memory-utilization",
    "--max-num-seqs",
    "--kv-cache-dtype",
    "--max-num-batched-tokens",
)
"""Flags that hardly any other program has."""


def starts_unknown(words: Sequence[Word]) -> bool:
    """Whether a container is started from an image that nobody knows, with flags that only vLLM has."""
    return (
        program(words[0]) in _RUNNERS | {"sudo"}
        and any(word.text in _RUNNING for word in words[:4])
        and any(word.unknown is not None for word in words)
        and any(word.text.replace("_", "-").startswith(TELLING) for word in words)
    )


def hidden_program(words: Sequence[Word]) -> str | None:
    """The `"$VLLM_BIN"` of `"$VLLM_BIN" serve MODEL`: a program that only a shell could name, and that is called vLLM's."""
    first = words[0]
    serves = first.unknown is not None and [word.text for word in words[1:2]] == ["serve"]
    return first.text if serves and "vllm" in first.text.lower() else None


_VALUED = frozenset({"-H", "--host", "-c", "--context", "-l", "--log-level", "--config", "--url", "--connection"})
"""Options before the subcommand that take a value."""


_BEFORE = frozenset({"sudo", "ssh", "autossh", "mosh"})
"""Programs that run docker with the words behind their own options."""


def _asked(words: Sequence[Word]) -> int | None:
    """Where the word stands that says what docker is to do: `run` of `docker --context x container run`; None for other programs."""
    if not words or program(words[0]) not in _RUNNERS | _BEFORE:
        return None
    start = next((at for at, word in enumerate(words) if program(word) in _RUNNERS), len(words))
    before = ""
    for at in range(start + 1, len(words)):
        text = words[at].text
        if not text.startswith("-") and before not in _VALUED and text != "container":
            return at
        before = text
    return None


def runs_image(words: Sequence[Word]) -> bool:
    """Whether the words are `docker run ...` or `docker container create ...`, and not `docker manifest create ...`."""
    at = _asked(words)
    return at is not None and words[at].text in _RUNNING


def enters(words: Sequence[Word]) -> bool:
    """Whether the words are `docker exec CONTAINER COMMAND`."""
    at = _asked(words)
    return at is not None and words[at].text == "exec"


def entered(words: Sequence[Word], outer: Container) -> Container | None:
    """The process that `docker exec CONTAINER COMMAND` starts, in a container that a command before has started."""
    at = _asked(words)
    if at is None or words[at].text != "exec":
        return None
    rest = words[at + 1 :]
    index = next(operands(rest, _ENTERING), len(rest))
    into = outer.named.get(rest[index].text) if index < len(rest) else None
    installed = outer.installed.moved(words)
    found = into or replace(
        outer, away=True, variables={}, gpus=None, find=nothing, installed=installed, built=None, release=None
    )
    return replace(
        found,
        name=outer.name,
        words=tuple(rest[index + 1 :]),
        entrypoint=True,
        folder=_workdir(rest[:index]) or found.folder,
        variables={**found.variables, **dict(_given_variables(rest[:index], outer.variables))},
        line=words[0].line,
    )


_ENTERING = frozenset({"-e", "--env", "--env-file", "-u", "--user", "-w", "--workdir", "--detach-keys"})
"""Options of `docker exec` that take a value."""


def docker(words: Sequence[Word], outer: Container) -> Container | None:
    """The container that `docker run ... IMAGE ARGS` starts, for a vLLM image."""
    if not runs_image(words):
        return None
    if _remote(words, outer.variables):
        outer = away(outer, words)
    for index, word in enumerate(words):
        if is_vllm_image(word.text) and not word.text.startswith("-") and not _is_value(words, index):
            before = words[:index]
            entry = option(before, "--entrypoint")
            gpus = option(before, "--gpus")
            given = dict(_given_variables(before, outer.variables))
            return replace(
                outer,
                words=(*([entry] if entry is not None and entry.text else []), *words[index + 1 :]),
                image=word.text,
                entrypoint=entry is not None,
                variables=given if gpus is None else handed(given),
                line=words[0].line,
                gpus=_gpu_count(gpus, outer.file) if gpus is not None else _handed(before, outer.file),
                devices=(*outer.devices, *_devices(before)),
                mounts=tuple(_seen(_mounts(before), outer.folder)),
                folder=_workdir(before),
                nodes=1,
                installed=Installed(),
                built=None,
                release=None,
            )
    return None


_NAMING = frozenset({
    "--name", "-v", "--volume", "--network", "--net", "--hostname", "-h", "--label", "-l", "-e", "--env", "--env-file", "-w",
    "--workdir", "--entrypoint", "--mount", "-u", "--user", "--add-host", "--link", "--volumes-from",
})  # fmt: skip


def _is_value(words: Sequence[Word], index: int) -> bool:
    """Whether a word that could be an image belongs to the option before it: `--name vllm`."""
    return index > 0 and words[index - 1].text in _NAMING


def _mounts(words: Sequence[Word]) -> Iterator[Mount]:
    """What the options of `docker run` mount, and where. words: all before the image."""
    yield from (volume(word.text) for word in options(words, "-v", "--volume"))
    yield from described(words)
    yield from ((None, word.text.partition(":")[0]) for word in options(words, "--tmpfs"))
    if option(words, "--volumes-from") is not None or any(_hides_options(words)):
        yield ANYWHERE


_SWITCHES = re.compile(
    r"-[ditPq]+|--(?:rm|detach|interactive|tty|init|privileged|read-only|publish-all|quiet|oom-kill-disable|no-healthcheck)",
    re.ASCII,
)
"""Options of `docker run` that take no value."""


def _hides_options(words: Sequence[Word]) -> Iterator[bool]:
    """Of each word whether it may be any options: `$EXTRA_MOUNTS`, which isn't the value of the one before it."""
    for before, word in pairwise(words):
        valued = before.text.startswith("-") and "=" not in before.text and not _SWITCHES.fullmatch(before.text)
        yield word.unknown is not None and not word.text.startswith("-") and not valued


def _seen(mounts: Iterable[Mount], folder: str | None) -> Iterator[Mount]:
    """Mounts whose relative sources are seen from the file's own folder. folder: where the command runs."""
    for source, target in mounts:
        yield joined(folder, source) if source is not None and source.startswith(".") else source, target


def _workdir(words: Sequence[Word]) -> str | None:
    """The folder that `-w FOLDER` lets the container begin in; None where that is the image's own, or isn't known."""
    said = option(words, "-w", "--workdir")
    return said.text if said is not None and said.unknown is None and said.text.startswith("/") else None


_HOSTS = ("-H", "--host", "-c", "--context", "--url", "--connection")
"""Options before the subcommand that choose the daemon; those of `docker run` by the same names stand behind it."""
_LOCAL = re.compile(r"|default|desktop-linux|rootless|(?:unix|npipe|fd):.*|podman-machine.*", re.ASCII)
"""Daemons of this machine."""


def _remote(words: Sequence[Word], variables: Mapping[str, str]) -> bool:
    """Whether the daemon runs on another machine: `docker -H ssh://gpu1`, `podman --remote`, DOCKER_HOST."""
    before = words[: _asked(words)]
    said = [word.text for word in options(before, *_HOSTS)] or [variables.get(name, "") for name in DAEMONS]
    joined_on = (word.text[2:] for word in before if word.text.startswith("-H") and len(word.text) > len("-H"))
    return any(word.text in {"--remote", "-r"} for word in before) or not all(
        _LOCAL.fullmatch(each) for each in (*said, *joined_on)
    )


def named(words: Sequence[Word], outer: Container) -> Iterator[tuple[str, Container]]:
    """The container that `docker run --name NAME IMAGE` starts, by that name."""
    name = option(words, "--name")
    started = docker(words, outer) if name is not None else None
    if name is not None and started is not None:
        yield name.text, started


def _gpu_count(word: Word, file: str) -> Placed | None:
    """How many GPUs `--gpus` gives: 2, or "device=0,1"; None for all."""
    text = word.text.strip("\"'")
    if text.startswith("device="):
        return Given(str(len(text.removeprefix("device=").split(","))), Place(file, word.line))
    return Given(text, Place(file, word.line)) if text.isdigit() else None


_CDI = "nvidia.com/gpu="
"""How `--device` names a GPU of NVIDIA's by the Container Device Interface: `nvidia.com/gpu=0`, or `=all`."""


def _handed(words: Sequence[Word], file: str) -> Placed | None:
    """How many GPUs `--device nvidia.com/gpu=N` gives; None for all, and where none is given so."""
    given = [word for word in options(words, "--device") if word.text.startswith(_CDI)]
    if not given or any(word.text == f"{_CDI}all" for word in given):
        return None
    return Given(str(len(given)), Place(file, given[0].line))


def _devices(words: Sequence[Word]) -> Iterator[Device]:
    """What is said of the accelerator: AMD's device file, and slices among the GPUs that are given."""
    for word in options(words, "--device"):
        if word.text.startswith(AMD_DEVICE):
            yield Device(AMD_DEVICE, AMD)
        elif word.text.startswith(_CDI):
            yield from of_ids("--device nvidia.com/gpu", word.text.removeprefix(_CDI))
    for word in options(words, "--gpus"):
        yield from of_ids("--gpus device", word.text.strip("\"'").removeprefix("device="))


def kubectl(words: Sequence[Word], outer: Container) -> Container | None:
    """The container that `kubectl run NAME --image=IMAGE -- ARGS` starts."""
    if not words or program(words[0]) not in {"kubectl", "oc"} or "run" not in [word.text for word in words[:4]]:
        return None
    image = option(words, "--image")
    texts = [word.text for word in words]
    if image is None or not is_vllm_image(image.text):
        return None
    end = texts.index("--") if "--" in texts else len(texts)
    return replace(
        outer,
        words=tuple(words[end + 1 :]),
        image=image.text,
        entrypoint=any(text in {"--command", "--command=true"} for text in texts[:end]),
        folder=None,
        line=words[0].line,
        installed=Installed(),
        built=None,
        release=None,
    )


def _given_variables(words: Sequence[Word], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What `-e NAME=value` puts into the environment, and `-e NAME`, which takes it from where it is run. known: what is set there."""
    for index, word in enumerate(words):
        if word.text in {"-e", "--env"}:
            given = words[index + 1].text if index + 1 < len(words) else ""
        elif word.text.startswith("--env="):
            given = word.text.removeprefix("--env=")
        elif word.text.startswith("-e") and not word.text.startswith("--"):
            given = word.text.removeprefix("-e")
        else:
            continue
        name, equals, value = given.partition("=")
        if equals or name in known:
            yield name, value if equals else known[name]
