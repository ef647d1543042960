"""Servers that a script certainly starts beside each other on one GPU, where they ask for more of its memory than there is.

Source: vLLM 0.33 v1/worker/utils.py request_memory, 0.9.2 v1/worker/gpu_worker.py: a server that finds less memory free than its
share doesn't start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from kvplan.manifests.flags.command import Command
from kvplan.manifests.places import Remark
from kvplan.manifests.processes.container import Served
from kvplan.manifests.processes.environment import CUDA, VISIBLE
from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.parser import Script

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


def remarked(script: Script, text: str, found: Sequence[Served]) -> Iterator[Served]:
    """What each command of a script serves, with a remark for one that finds another on its GPU. text: the script."""
    running: dict[str, Command] = {}
    for number, ((words, variables, _), served) in enumerate(zip(script.commands, found, strict=True)):
        started = next((word for word in words if program(word) not in _PASSING), words[0])
        sure = number in script.sure and program(started) in _STARTING and len(served.commands) == 1
        if not served.commands and program(words[0]) not in _HARMLESS:
            running.clear()
        if not sure:
            yield served
            continue
        (command,) = served.commands
        devices = tuple(_devices(command, variables, text))
        others = ((device, running[device]) for device in devices if device in running)
        noted = [_remark(command, device, other) for device, other in others if _share(command) + _share(other) > 1]
        yield replace(served, commands=(replace(command, noted=(*command.noted, *noted[:1])),))
        if script.sure[number]:
            running |= dict.fromkeys(devices, command)


def _devices(command: Command, variables: Mapping[str, str], text: str) -> Iterator[str]:
    """The GPUs that a server certainly uses; "" for the first that there is, where the script says nothing of them."""
    size = prod(int(placed.value) for key, placed in command.layer.items() if key in _RANKED)
    if any(flag.name.startswith(_SHARING) for flag in command.flags):
        return
    if "_VISIBLE_DEVICES" not in text:
        yield ""
    elif variables.keys() & set(VISIBLE) == {CUDA}:
        listed = [each.strip() for each in variables[CUDA].split(",")]
        yield from (each for each in listed[:size] if each and "$" not in each)


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


def _remark(command: Command, device: str, other: Command) -> Remark:
    whose = f"GPU {device}" if device else "the same GPU"
    text = (
        f"{other.name}'s server runs on {whose} at the same time, and {_said(other)} and {_said(command)} of its memory "
        f"are more than there is: give each its own GPUs ({CUDA}), or less (--gpu-memory-utilization)"
    )
    return Remark("gpu-count", text, command.place)
