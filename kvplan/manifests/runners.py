"""Commands that start containers: `docker run IMAGE ...`, `kubectl run NAME --image=IMAGE ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kvplan.manifests.accelerators import AMD, AMD_DEVICE, Device, of_ids
from kvplan.manifests.container import Container
from kvplan.manifests.images import is_vllm_image
from kvplan.manifests.installs import Installed, program
from kvplan.manifests.said import Given, Place, Placed
from kvplan.manifests.words import Word

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


def runs_image(words: Sequence[Word]) -> bool:
    """Whether the words are `docker run ...` or `docker container create ...`, and not `docker manifest create ...`."""
    if not words or program(words[0]) not in _RUNNERS | {"sudo"}:
        return False
    start = next((at for at, word in enumerate(words) if program(word) in _RUNNERS), len(words))
    before = ""
    for word in words[start + 1 :]:
        if not word.text.startswith("-") and before not in _VALUED and word.text != "container":
            return word.text in _RUNNING
        before = word.text
    return False


def docker(words: Sequence[Word], outer: Container) -> Container | None:
    """The container that `docker run ... IMAGE ARGS` starts, for a vLLM image."""
    if not runs_image(words):
        return None
    for index, word in enumerate(words):
        if is_vllm_image(word.text) and not word.text.startswith("-") and not _is_value(words, index):
            before = words[:index]
            entry = _option(before, "--entrypoint")
            gpus = _option(before, "--gpus")
            return replace(
                outer,
                words=(*([entry] if entry is not None and entry.text else []), *words[index + 1 :]),
                image=word.text,
                entrypoint=entry is not None,
                variables={**outer.variables, **dict(_given_variables(before))},
                line=words[0].line,
                gpus=_gpu_count(gpus, outer.file) if gpus is not None else _handed(before, outer.file),
                devices=tuple(_devices(before)),
                nodes=1,
                installed=Installed(),
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


def _option(words: Sequence[Word], name: str) -> Word | None:
    """The value of `--name value` or `--name=value`."""
    for index, word in enumerate(words):
        if word.text == name and index + 1 < len(words):
            return words[index + 1]
        if word.text.startswith(f"{name}="):
            return replace(word, text=word.text.partition("=")[2])
    return None


def _gpu_count(word: Word, file: str) -> Placed | None:
    """How many GPUs `--gpus` gives: 2, or "device=0,1"; None for all."""
    text = word.text.strip("\"'")
    if text.startswith("device="):
        return Given(str(len(text.removeprefix("device=").split(","))), Place(file, word.line))
    return Given(text, Place(file, word.line)) if text.isdigit() else None


def _options(words: Sequence[Word], *names: str) -> Iterator[Word]:
    """Every value of an option that may be given several times, and under several names."""
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name not in names:
            continue
        if equals:
            yield replace(word, text=value)
        elif index + 1 < len(words):
            yield words[index + 1]


_CDI = "nvidia.com/gpu="
"""How `--device` names a GPU of NVIDIA's by the Container Device Interface: `nvidia.com/gpu=0`, or `=all`."""


def _handed(words: Sequence[Word], file: str) -> Placed | None:
    """How many GPUs `--device nvidia.com/gpu=N` gives; None for all, and where none is given so."""
    given = [word for word in _options(words, "--device") if word.text.startswith(_CDI)]
    if not given or any(word.text == f"{_CDI}all" for word in given):
        return None
    return Given(str(len(given)), Place(file, given[0].line))


def _devices(words: Sequence[Word]) -> Iterator[Device]:
    """What is said of the accelerator: AMD's device file, and slices among the GPUs that are given."""
    for word in _options(words, "--device"):
        if word.text.startswith(AMD_DEVICE):
            yield Device(AMD_DEVICE, AMD)
        elif word.text.startswith(_CDI):
            yield from of_ids("--device nvidia.com/gpu", word.text.removeprefix(_CDI))
    for word in _options(words, "--gpus"):
        yield from of_ids("--gpus device", word.text.strip("\"'").removeprefix("device="))


_TYPED = re.compile(r"(?:[^:]+:)?(\d+)", re.ASCII)
_NAMED = re.compile(r"gpu(?::[^:]+)?:(\d+)", re.ASCII)
_ALLOTTED: tuple[tuple[frozenset[str], re.Pattern[str]], ...] = (
    (frozenset({"--gpus", "-G"}), _TYPED),
    (frozenset({"--gpus-per-node"}), _TYPED),
    (frozenset({"--gpus-per-task"}), _TYPED),
    (frozenset({"--gres"}), _NAMED),
)
"""Options of srun that say how many GPUs a job, a node or a task gets, by their names: `4`, `h100:4`, of --gres `gpu:4` and
`gpu:h100:4` among what isn't a GPU. Source: https://slurm.schedmd.com/srun.html
"""


def _allotted(words: Sequence[Word], file: str) -> Iterator[Placed]:
    """How many GPUs each of srun's options gives, in all that it lists; the last value of one that is repeated counts."""
    for names, form in _ALLOTTED:
        last = next(reversed(list(_options(words, *names))), None)
        counts = [int(match[1]) for each in last.text.split(",") if (match := form.fullmatch(each))] if last else []
        if last is not None and counts:
            yield Given(str(sum(counts)), Place(file, last.line))


def srun(words: Sequence[Word], outer: Container) -> Container:
    """The process with the GPUs that `srun --gpus=1 COMMAND` gives it; as it is for another command, or on several nodes."""
    if not words or program(words[0]) != "srun":
        return outer
    nodes = next((word.text for word in reversed(list(_options(words, "-N", "--nodes")))), "1")
    if nodes != "1":
        outer = replace(outer, nodes=None)
    given = list(_allotted(words, outer.file))
    image = next(_options(words, "--container-image"), None)
    if image is not None and is_vllm_image(named := image.text.removeprefix("docker://").replace("#", "/")):
        outer = replace(outer, image=named, entrypoint=True, installed=Installed(), release=None)
    return replace(outer, gpus=min(given, key=lambda count: int(str(count.value)))) if given and nodes == "1" else outer


def kubectl(words: Sequence[Word], outer: Container) -> Container | None:
    """The container that `kubectl run NAME --image=IMAGE -- ARGS` starts."""
    if not words or program(words[0]) not in {"kubectl", "oc"} or "run" not in [word.text for word in words[:4]]:
        return None
    image = _option(words, "--image")
    texts = [word.text for word in words]
    if image is None or not is_vllm_image(image.text):
        return None
    end = texts.index("--") if "--" in texts else len(texts)
    return replace(
        outer,
        words=tuple(words[end + 1 :]),
        image=image.text,
        entrypoint=any(text in {"--command", "--command=true"} for text in texts[:end]),
        line=words[0].line,
        installed=Installed(),
        release=None,
    )


def _given_variables(words: Sequence[Word]) -> Iterable[tuple[str, str]]:
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
        if equals:
            yield name, value
