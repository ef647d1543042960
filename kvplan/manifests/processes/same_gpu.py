"""Servers that certainly run beside each other on one GPU, where they ask for more of its memory than there is.

Source: vLLM 0.33 v1/worker/utils.py request_memory, 0.9.2 v1/worker/gpu_worker.py: a server that finds less memory free than its
share doesn't start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from kvplan.manifests.flags.command import Command
from kvplan.manifests.places import Remark
from kvplan.manifests.processes.container import Served
from kvplan.manifests.processes.environment import CUDA, VISIBLE
from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.parser import Script
from kvplan.text import all_of

_STARTING = frozenset({"vllm", "python", "python3", "env", "numactl", "taskset", "setsid", "uv"})
"""Programs that run a server here, and as long as that runs."""
_PASSING = frozenset({"nohup", "exec", "command"})
"""Words before one of these that leave it as it is."""
_HARMLESS = frozenset(
    {"sleep", "echo", "printf", "curl", "mkdir", "date", "nvidia-smi", "[", "[[", "test", "tail", "cat", "cd"}
)
"""Commands that end no server."""
_SHARING = (
    "kv-cache-memory",
    "device",
    "data-parallel",
    "nnodes",
    "node-rank",
    "headless",
    "distributed-executor",
    "enable-sleep",
)
"""Beginnings of flags by which a server takes another share, or other GPUs."""
_LEAST = 0.9
"""The share of a server that isn't told one; 0.92 since 0.20.0."""


@dataclass(slots=True)
class Together:
    """Servers that run at the same time. means: what gives each its own GPUs. running: those on each GPU."""

    means: str
    running: dict[str, tuple[Command, ...]] = field(default_factory=dict)

    def start(self, served: Served, visible: Sequence[str], *, stays: bool = True) -> Served:
        """One more, with a remark where it finds too little left of a GPU. visible: the GPUs that it sees. stays: whether it runs on beside others."""
        if len(served.commands) != 1:
            return served
        (command,) = served.commands
        used = tuple(visible[: _size(command)]) if _certain(command) else ()
        crowded = ((gpu, others) for gpu in used if (others := self.running.get(gpu, ())))
        noted = [_remark(command, gpu, others, self.means) for gpu, others in crowded if _asked(command, *others) > 1]
        if stays:
            self.running |= {gpu: (*self.running.get(gpu, ()), command) for gpu in used}
        return replace(served, commands=(replace(command, noted=(*command.noted, *noted[:1])),))


def remarked(script: Script, text: str, found: Sequence[Served]) -> Iterator[Served]:
    """What each command of a script serves, with a remark for one that finds another on its GPU. text: the script."""
    together = Together(CUDA)
    for number, ((words, variables, _), served) in enumerate(zip(script.commands, found, strict=True)):
        started = next((word for word in words if program(word) not in _PASSING), words[0])
        if not served.commands and program(words[0]) not in _HARMLESS:
            together = Together(CUDA)
        if number in script.sure and program(started) in _STARTING:
            yield together.start(served, _visible(variables, text), stays=script.sure[number])
        else:
            yield served


def _certain(command: Command) -> bool:
    """Whether it takes its share, of the first GPUs that it sees."""
    return not any(flag.name.startswith(_SHARING) for flag in command.flags)


def _size(command: Command) -> int:
    return prod(int(placed.value) for key, placed in command.layer.items() if key in _RANKED)


def _visible(variables: Mapping[str, str], text: str) -> tuple[str, ...]:
    """The GPUs that a server of a script certainly sees; "" for the first that there is, where the script says nothing of them."""
    if "_VISIBLE_DEVICES" not in text:
        return ("",)
    if variables.keys() & set(VISIBLE) != {CUDA}:
        return ()
    listed = [each.strip() for each in variables[CUDA].split(",")]
    return tuple(listed) if all(each and "$" not in each for each in listed) else ()


_RANKED = (("parallel", "tp"), ("parallel", "pp"))


_SHARED = ("flags", "gpu_memory_utilization")


def _share(command: Command) -> float:
    said = command.layer.get(_SHARED)
    try:
        return _LEAST if said is None else float(said.value)
    except ValueError:
        return 0.0


def _said(command: Command) -> str:
    return f"{_share(command):g}" if _SHARED in command.layer else f"{_LEAST:g} or more"


def _asked(*commands: Command) -> float:
    """The share of a GPU's memory that all of them ask for, in whole per cent as people write them."""
    return round(sum(map(_share, commands)), 6)


def _remark(command: Command, device: str, others: Sequence[Command], means: str) -> Remark:
    whose = f"GPU {device}" if device else "the same GPU"
    names, shares = all_of(each.name for each in others), all_of(map(_said, (*others, command)))
    servers = f"{names}'s server runs" if len(others) == 1 else f"the servers of {names} run"
    text = (
        f"{servers} on {whose} at the same time, and {shares} of its memory "
        f"are more than there is: give each its own GPUs ({means}), or less (--gpu-memory-utilization)"
    )
    return Remark("gpu-count", text, command.place)
