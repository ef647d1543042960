"""Slurm: what the header of a batch script and `srun` give a process, and the containers that pyxis starts it in.

Source: https://slurm.schedmd.com/sbatch.html and srun.html, https://github.com/NVIDIA/pyxis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from kvplan.manifests.devices.accelerators import NVIDIA, Device
from kvplan.manifests.devices.node_gpus import chosen
from kvplan.manifests.places import Given, Place, Placed
from kvplan.manifests.processes.apptainer import JOBS, contained
from kvplan.manifests.processes.container import Container
from kvplan.manifests.processes.mounts import bound
from kvplan.manifests.shell.options import options, program
from kvplan.manifests.shell.parser import Word, listed

_HEADER = re.compile(r"#SBATCH[ \t]+(.*)")
_TYPED = re.compile(r"(?:([^:]+):)?(\d+)", re.ASCII)
_NAMED = re.compile(r"gpu(?::([^:]*[^:\d][^:]*|\d+(?=:)))?(?::(\d+))?", re.ASCII)
"""`gpu`, `gpu:4`, `gpu:h100`, `gpu:3090:4`: digits alone are a name where a number follows."""
_PROFILE = re.compile(r"(.*?)[_-]?(\d+g\.\d+gb).*", re.ASCII)
"""A MIG slice, behind the name of its GPU: `a100_3g.20gb`."""
_SHORT = re.compile(r"-([EHOQVXZhklsuv]*)([GNn])(.*)", re.ASCII | re.DOTALL)
"""A word with one of the options that count, behind others that take no value, and before its own: `-lN2`."""
_FLAGS = frozenset({
    "--exclusive", "--overlap", "--exact", "--pty", "--label", "-l", "--unbuffered", "-u", "--verbose", "-v", "--quiet", "-Q", "--overcommit",
    "-O", "--oversubscribe", "-s", "--hold", "-H", "--preserve-env", "-E", "--no-allocate", "-Z", "--disable-status", "-X", "--immediate",
    "-I", "--kill-on-bad-exit", "-K", "--no-kill", "-k", "--contiguous", "--use-min-nodes", "--spread-job", "--wait-all-nodes",
    "--no-container-mount-home", "--container-mount-home", "--container-remap-root", "--no-container-remap-root",
    "--container-writable", "--container-readonly", "--container-entrypoint", "--no-container-entrypoint",
})  # fmt: skip
"""Options of srun that take no word after them."""
_PER_TASK, _PER_SOCKET = "--gpus-per-task", "--gpus-per-socket"
_ALLOTTED: tuple[tuple[frozenset[str], re.Pattern[str]], ...] = (
    (frozenset({"--gpus", "-G"}), _TYPED),
    (frozenset({"--gpus-per-node"}), _TYPED),
    (frozenset({_PER_TASK}), _TYPED),
    (frozenset({_PER_SOCKET}), _TYPED),
    (frozenset({"--gres"}), _NAMED),
)
"""Options that say how many GPUs a job, a node, a task or a socket gets, by their names: `4`, `h100:4`, of --gres `gpu:4` and `gpu:h100:4`
among what isn't a GPU.
"""

_TASKS, _NODES, _IMAGE, _SOCKETS = ("-n", "--ntasks"), ("-N", "--nodes"), "--image", "--sockets-per-node"
_BOX, _MOUNTS = "--container-image", "--container-mounts"
"""Options of pyxis: of srun for what it starts, in a header for the whole script."""
_TELLING = frozenset({*_TASKS, *_NODES, _IMAGE, _BOX, _MOUNTS, _SOCKETS, "--ntasks-per-node"}).union(
    *(names for names, _ in _ALLOTTED)
)
"""Every option of a header that is looked at."""


class _Allotted(NamedTuple):
    """What one option gives: the number of GPUs, None where that isn't known, and what they are called. option: its long name."""

    number: Placed | None
    place: Place
    kinds: tuple[str, ...]
    option: str


def _last(words: Sequence[Word], *names: str) -> Word | None:
    """The value of an option that counts where it is repeated."""
    return next(reversed(list(options(words, *names))), None)


def _apart(words: Sequence[Word]) -> Iterator[Word]:
    """Options with each that getopt takes from the same word, and its value, in a word of its own: `-l -N 2` for `-lN2`."""
    for word in words:
        match = _SHORT.fullmatch(word.text)
        if match is None or match[3].startswith("="):
            yield word
        else:
            apart = (*(f"-{letter}" for letter in match[1] + match[2]), *filter(None, [match[3]]))
            yield from (replace(word, text=text) for text in apart)


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
            times = tasks if _PER_TASK in names else _sockets(words) if _PER_SOCKET in names else 1
            place, each = Place(file, last.line), sum(int(match[2] or 1) for match in found)
            number = None if times is None else Given(str(each * times), place)
            kinds = tuple(match[1] for match in found if match[1])
            yield _Allotted(number, place, kinds, max(names, key=len))


def _sockets(words: Sequence[Word]) -> int | None:
    """How many of a node's sockets a job asks for; None where it doesn't say."""
    last = _last(words, _SOCKETS)
    return int(last.text) if last is not None and last.text.isdigit() else None


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
    return [] if any(word.text == "hetjob" for word in words) else list(_telling(words))


def exported(job: Sequence[Word]) -> frozenset[str]:
    """Variables of a job that has GPUs which Slurm exports, so that what a script sets them to reaches its commands.

    job: words of its header. Source: Slurm's gres.conf(5), gres/gpu; POSIX keeps a variable exported that is assigned anew.
    """
    return frozenset({"CUDA_VISIBLE_DEVICES"}) if any(_allotted(job, "", 1)) else frozenset()


def _telling(words: Sequence[Word]) -> Iterator[Word]:
    """The options that say something, each with its last value: every command of a long script looks at all of them."""
    last: dict[str, Word] = {}
    for word, after in zip_longest(words, words[1:]):
        name, equals, value = word.text.partition("=")
        given = replace(word, text=value) if equals else after
        if name in _TELLING and given is not None:
            last.pop(name, None)  # so that the last of several names of one option stays the last
            last[name] = given
    for name, given in last.items():
        yield replace(given, text=name)
        yield given


def batch(words: Sequence[Word], process: Container) -> Container:
    """A command of a batch script, with what the job has. words: of its header."""
    if not words:
        return process
    if (image := next(options(words, _IMAGE), None)) is not None:
        process = replace(process, named={**process.named, JOBS: contained(image, process)})
    process = replace(_boxed(words, process), installed=process.installed)  # which the script does in there
    return _given(words, process, _tasks(words))


def _boxed(words: Sequence[Word], outer: Container) -> Container:
    """The process in the container that pyxis starts, if options say so."""
    image = next(options(words, _BOX), None)
    if image is None:
        return outer
    return replace(contained(image, outer), mounts=tuple(bound(words, _MOUNTS)), folder=None)


def _tasks(words: Sequence[Word]) -> int:
    """How many tasks share a node of a job, as far as its options say so."""
    said = (_last(words, *names) for names in (_TASKS, ("--ntasks-per-node",)))
    return max((int(word.text) for word in said if word is not None and word.text.isdigit()), default=1)


def submitted(words: Sequence[Word], outer: Container) -> Container:
    """The process with what `sbatch --gpus=1 --wrap=COMMAND` or `salloc --gpus=1 COMMAND` gives its job; as it is for another command."""
    if not words or program(words[0]) not in {"sbatch", "salloc"}:
        return outer
    words = _own(list(_apart(words)))
    return _given(words, outer, _tasks(words))


def srun(words: Sequence[Word], outer: Container) -> Container:
    """The process with what `srun --gpus=1 COMMAND` gives it, or a job of its own; as it is for another command."""
    if not words or program(words[0]) != "srun":
        return submitted(words, outer)
    words = _own(list(_apart(words)))
    return _given(words, _boxed(words, outer))


def _given(words: Sequence[Word], process: Container, tasks: int = 1) -> Container:
    """A process with the GPUs that options give it; on several nodes nobody knows how many each has. tasks: whose GPUs it has."""
    last = _last(words, *_NODES)
    nodes = "1" if last is None else last.text
    given = list(_allotted(words, process.file, tasks))
    if nodes != "1":
        process = replace(process, nodes=None)
    if not given:
        return process
    numbers = (each.number for each in given if each.number is not None)
    counted = min(numbers, key=lambda number: int(str(number.value)), default=process.gpus)
    kinds = [(each.option, kind, each.place) for each in given for kind in each.kinds]
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
