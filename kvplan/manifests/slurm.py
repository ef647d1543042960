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
from kvplan.manifests.node_gpus import SLURM, chosen
from kvplan.manifests.options import options, program
from kvplan.manifests.said import Given, Place, Placed
from kvplan.manifests.words import Word, listed

_HEADER = re.compile(r"#SBATCH[ \t]+(.*)")
_TYPED = re.compile(r"(?:([^:]+):)?(\d+)", re.ASCII)
_NAMED = re.compile(r"gpu(?::([A-Za-z][^:]*|\d+g\.\d+gb[^:]*))?(?::(\d+))?", re.ASCII)
_PROFILE = re.compile(r"\d+g\.\d+gb", re.ASCII)
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
    """What one option gives: the number of GPUs, and what they are called."""

    number: Placed
    kinds: tuple[str, ...]


def _allotted(words: Sequence[Word], file: str) -> Iterator[_Allotted]:
    """What each option gives, in all that it lists; the last value of one that is repeated counts."""
    for names, form in _ALLOTTED:
        last = next(reversed(list(options(words, *names))), None)
        found = [match for each in last.text.split(",") if (match := form.fullmatch(each))] if last else []
        if last is not None and found:
            number = sum(int(match[2] or 1) for match in found)
            yield _Allotted(Given(str(number), Place(file, last.line)), tuple(match[1] for match in found if match[1]))


def header(script: str) -> list[Word]:
    """The words of a batch script's `#SBATCH` lines, which stand before its first command.

    None of a job with parts of its own, as nobody knows which of them a command runs in.
    """
    words: list[Word] = []
    for number, line in enumerate(script.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            break
        if match := _HEADER.match(line):
            words += listed(match[1], number)
    return [] if any(word.text == "hetjob" for word in words) else words


def batch(words: Sequence[Word], process: Container) -> Container:
    """A command of a batch script, with what the job has. words: of its header."""
    if not words:
        return process
    tasks = next((word.text for word in reversed(list(options(words, "-n", "--ntasks")))), "1")
    alone = words if tasks == "1" else [word for word in words if not word.text.startswith(_PER_TASK)]
    if (image := next(options(words, "--image"), None)) is not None:
        process = replace(process, named={**process.named, JOBS: contained(image, process)})
    return _given(alone, process)


def srun(words: Sequence[Word], outer: Container) -> Container:
    """The process with what `srun --gpus=1 COMMAND` gives it; as it is for another command."""
    if not words or program(words[0]) != "srun":
        return outer
    image = next(options(words, "--container-image"), None)
    return _given(words, outer if image is None else contained(image, outer))


def _given(words: Sequence[Word], process: Container) -> Container:
    """A process with the GPUs that options give it; on several nodes nobody knows how many each has."""
    nodes = next((word.text for word in reversed(list(options(words, "-N", "--nodes")))), "1")
    given = list(_allotted(words, process.file))
    if nodes != "1":
        process = replace(process, nodes=None)
    if not given:
        return process
    counted = min((each.number for each in given), key=lambda number: int(str(number.value)))
    kinds = [(kind, each.number.place) for each in given for kind in each.kinds]
    slices = tuple(
        Device(f"{SLURM}: {kind}", NVIDIA, match[0]) for kind, _ in kinds if (match := _PROFILE.search(kind))
    )
    machine = chosen((SLURM, kind, place) for kind, place in kinds if not _PROFILE.search(kind))
    process = replace(
        process,
        gpu=machine.gpu or process.gpu,
        unclear=machine.unclear or process.unclear,
        devices=(*process.devices, *machine.devices, *slices),
    )
    return replace(process, gpus=counted) if nodes == "1" else process
