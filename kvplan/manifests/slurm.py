"""Slurm: what the header of a batch script and `srun` give a process, and the containers that pyxis starts it in.

Source: https://slurm.schedmd.com/sbatch.html and srun.html, https://github.com/NVIDIA/pyxis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvplan.manifests.accelerators import NVIDIA, Device
from kvplan.manifests.boxes import JOBS, contained
from kvplan.manifests.container import Container
from kvplan.manifests.mounts import bound
from kvplan.manifests.node_gpus import chosen
from kvplan.manifests.options import options, program
from kvplan.manifests.said import Given, Place, Placed
from kvplan.manifests.words import Word, listed

_HEADER = re.compile(r"#SBATCH[ \t]+(.*)")
_TYPED = re.compile(r"(?:([^:]+):)?(\d+)", re.ASCII)
_NAMED = re.compile(r"gpu(?::([^:]*[^:\d][^:]*|\d+(?=:)))?(?::(\d+))?", re.ASCII)
"""`gpu`, `gpu:4`, `gpu:h100`, `gpu:3090:4`: digits alone are a name where a number follows."""
_PROFILE = re.compile(r"(.*?)[_-]?(\d+g\.\d+gb).*", re.ASCII)
"""A MIG slice, behind the name of its GPU: `a100_3g.20gb`."""
_SHORT = frozenset({"-G", "-N", "-n"})
_FLAGS = frozenset({
    "--exclusive", "--overlap", "--exact", "--pty", "--label", "-l", "--unbuffered", "-u", "--verbose", "-v", "--quiet", "-Q", "--overcommit",
    "-O", "--oversubscribe", "-s", "--hold", "-H", "--preserve-env", "-E", "--no-allocate", "-Z", "--disable-status", "-X", "--immediate",
    "-I", "--kill-on-bad-exit", "-K", "--no-kill", "-k", "--contiguous", "--use-min-nodes", "--spread-job", "--wait-all-nodes",
    "--no-container-mount-home", "--container-mount-home", "--container-remap-root", "--no-container-remap-root",
    "--container-writable", "--container-readonly", "--container-entrypoint", "--no-container-entrypoint",
})  # fmt: skip
"""Options of srun that take no word after them."""
_PER_TASK = "--gpus-per-task"
_ALLOTTED: tuple[tuple[frozenset[str], re.Pattern[str]], ...] = (
    (frozenset({"--gpus", "-G"}), _TYPED),
    (frozenset({"--gpus-per-node"}), _TYPED),
    (frozenset({_PER_TASK}), _TYPED),
    (frozenset({"--gres"}), _NAMED),
)
"""Options that say how many GPUs a job, a node or a task gets, by their names: `4`, `h100:4`, of --gres `gpu:4` and `gpu:h100:4`
among what isn't a GPU.
"""


class _Allotted(NamedTuple):
    """What one option gives: the number of GPUs, and what they are called. option: its long name."""

    number: Placed
    kinds: tuple[str, ...]
    option: str


def _last(words: Sequence[Word], *names: str) -> Word | None:
    """The value of an option that counts where it is repeated."""
    return next(reversed(list(options(words, *names))), None)


def _apart(words: Sequence[Word]) -> Iterator[Word]:
    """Options with each value that getopt takes from the same word, `-N2`, in a word of its own."""
    for word in words:
        short, value = word.text[:2], word.text[2:]
        if short in _SHORT and value and not value.startswith("="):
            yield replace(word, text=short)
            yield replace(word, text=value)
        else:
            yield word


def _own(words: Sequence[Word]) -> Sequence[Word]:
    """The words of `srun OPTION... COMMAND` that are its options and their values."""
    before = ""
    for at, word in enumerate(words[1:], 1):
        if not word.text.startswith("-") and (before in _FLAGS or not before.startswith("-") or _attached(before)):
            return words[:at]
        before = word.text
    return words


def _attached(option: str) -> bool:
    """Whether an option's value stands in the same word."""
    return "=" in option if option.startswith("--") else len(option) > len("-N")


def _allotted(words: Sequence[Word], file: str, tasks: int) -> Iterator[_Allotted]:
    """What each option gives, in all that it lists; the last value of one that is repeated counts. tasks: that share a node."""
    for names, form in _ALLOTTED:
        last = _last(words, *names)
        found = [match for each in last.text.split(",") if (match := form.fullmatch(each))] if last else []
        if last is not None and found:
            number = sum(int(match[2] or 1) for match in found) * (tasks if _PER_TASK in names else 1)
            kinds = tuple(match[1] for match in found if match[1])
            yield _Allotted(Given(str(number), Place(file, last.line)), kinds, max(names, key=len))


def header(script: str) -> list[Word]:
    """The words of a batch script's `#SBATCH` lines, which stand before its first command.

    None of a job with parts of its own, as nobody knows which of them a command runs in.
    """
    words: list[Word] = []
    for number, line in enumerate(script.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            break
        if match := _HEADER.match(line):
            words += _apart(listed(match[1], number))
    return [] if any(word.text == "hetjob" for word in words) else words


def batch(words: Sequence[Word], process: Container) -> Container:
    """A command of a batch script, with what the job has. words: of its header."""
    if not words:
        return process
    said = (_last(words, *names) for names in (("-n", "--ntasks"), ("--ntasks-per-node",)))
    tasks = max((int(word.text) for word in said if word is not None and word.text.isdigit()), default=1)
    if (image := next(options(words, "--image"), None)) is not None:
        process = replace(process, named={**process.named, JOBS: contained(image, process)})
    return _given(words, process, tasks)


def srun(words: Sequence[Word], outer: Container) -> Container:
    """The process with what `srun --gpus=1 COMMAND` gives it; as it is for another command."""
    if not words or program(words[0]) != "srun":
        return outer
    words = list(_apart(_own(words)))
    image = next(options(words, "--container-image"), None)
    if image is not None:
        outer = replace(contained(image, outer), mounts=tuple(bound(words, "--container-mounts")))
    return _given(words, outer)


def _given(words: Sequence[Word], process: Container, tasks: int = 1) -> Container:
    """A process with the GPUs that options give it; on several nodes nobody knows how many each has. tasks: whose GPUs it has."""
    last = _last(words, "-N", "--nodes")
    nodes = "1" if last is None else last.text
    given = list(_allotted(words, process.file, tasks))
    if nodes != "1":
        process = replace(process, nodes=None)
    if not given:
        return process
    counted = min((each.number for each in given), key=lambda number: int(str(number.value)))
    kinds = [(each.option, kind, each.number.place) for each in given for kind in each.kinds]
    sliced = [(option, kind, match) for option, kind, _ in kinds if (match := _PROFILE.fullmatch(kind))]
    slices = tuple(Device(f"{option}: {kind}", NVIDIA, match[2]) for option, kind, match in sliced)
    names = ((option, match[1] if (match := _PROFILE.fullmatch(kind)) else kind, at) for option, kind, at in kinds)
    machine = chosen((option, name, place) for option, name, place in names if name)
    process = replace(
        process,
        gpu=machine.gpu or process.gpu,
        unclear=machine.unclear or process.unclear,
        devices=(*process.devices, *machine.devices, *slices),
    )
    return replace(process, gpus=counted) if nodes == "1" else process
