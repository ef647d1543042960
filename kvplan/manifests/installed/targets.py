"""What a vLLM that is installed was built for, by the variable that its build looks at.

Source: vLLM 0.33 setup.py VLLM_TARGET_DEVICE; docs/getting_started/installation/cpu.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvplan.manifests.installed.images import DEVICES
from kvplan.manifests.installed.installs import MOST_BEFORE
from kvplan.manifests.processes.environment import TARGET
from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.parser import Ran
from kvplan.manifests.shell.word import Word

_INSTALLERS = ("pip", "uv", "python")
_BUILDING = frozenset({"install", "develop", "sync", "wheel", "bdist_wheel"})


def built_for(commands: Iterable[Ran]) -> str | None:
    """The device that is no GPU of NVIDIA's or AMD's, where every installation of vLLM is for that one; None otherwise."""
    found = {
        DEVICES.get(variables.get(TARGET, "").lower())
        for words, variables, _ in commands
        if _builds(words) and (TARGET in variables or _names_vllm(words))
    }
    return found.pop() if len(found) == 1 else None


def _builds(words: Sequence[Word]) -> bool:
    """Whether a command installs for Python; packages of the system are built for nothing."""
    installs = any(program(word).startswith(_INSTALLERS) for word in words[:MOST_BEFORE])
    return installs and not _BUILDING.isdisjoint(word.text for word in words)


def _names_vllm(words: Iterable[Word]) -> bool:
    return any("vllm" in word.text for word in words)
