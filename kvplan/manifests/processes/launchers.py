"""Words before a command that change its process: `env A=b`, `sudo`, and programs that run it on another machine.

Source: env(1), sudo(8) env_reset, su(1); ssh(1), sbatch(1), kubectl exec, docker compose exec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from kvplan.manifests.processes.container import Container, away
from kvplan.manifests.processes.docker import runs_image
from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.word import Word

_AWAY = frozenset({
    "ssh", "autossh", "mosh", "pdsh", "clush", "pssh", "parallel-ssh", "ansible", "sbatch", "salloc", "qsub", "bsub", "kubectl", "oc",
    "docker-compose", "podman-compose", "gcloud", "aws", "az", "sky", "modal", "runai", "ray", "lxc", "incus", "vagrant",
})  # fmt: skip
"""Programs that run what they are given on another machine, in another job, or in a container of another file's."""
_COMPOSED = frozenset({"docker", "podman", "nerdctl"})
_KEEPING = re.compile(r"-[A-Za-z]*E[A-Za-z]*|--preserve-env(?:=.*)?", re.ASCII)
"""Options of sudo that keep the environment."""
_SETTING = frozenset({"env", "sudo", "doas"})
"""Programs that take `NAME=value` before the command that they run."""
_VALUED = frozenset({"-u", "--unset", "-C", "--chdir", "--user", "-g", "--group", "-h", "--host", "-p", "--prompt"})
"""Their options that take a word."""
_LOGGING_IN, _LOGIN = frozenset({"su", "runuser"}), frozenset({"-", "-l", "--login"})
"""Programs that begin another's environment anew, and the options by which they do."""
_CLEAN = frozenset({"-", "-i", "--ignore-environment"})
_RUN = frozenset({"vllm", "sh", "bash", "ash", "dash", "zsh", "python", "python3"})
"""Programs whose own words say nothing about where they run."""
MOST_BEFORE = 16
"""Words among which a program may stand that starts another."""


def process(words: Sequence[Word], outer: Container) -> Container:
    """The process that a command's last program runs in. outer: that of its first, and of a container that it starts."""
    last = _RUN | _COMPOSED if runs_image(words) else _RUN
    before = list(takewhile(lambda word: program(word) not in last, words[:MOST_BEFORE]))
    for at, word in enumerate(before):
        name = program(word) if "=" not in word.text else ""
        if name in _AWAY or (name in _COMPOSED and any(other.text == "compose" for other in before[at + 1 :])):
            outer = away(outer, before[at:])
        elif name in _LOGGING_IN and not _LOGIN.isdisjoint(other.text for other in before[at + 1 :]):
            outer = replace(outer, variables={}, folder=None)
        elif name in _SETTING:
            outer = replace(outer, variables=dict(_set(name, before[at + 1 :], outer.variables)))
    return outer


def _set(name: str, words: Sequence[Word], outer: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The environment that `env` or `sudo` makes of the outer one; sudo leaves that behind unless it is told to keep it."""
    own = list(_own(words))
    texts = {word.text for word in own}
    cleared = bool(_CLEAN & texts) if name == "env" else not any(map(_KEEPING.fullmatch, texts))
    unset = {after.text for word, after in pairwise(own) if word.text in {"-u", "--unset"}}
    unset |= {word.text.removeprefix("--unset=") for word in own}
    yield from ((key, value) for key, value in outer.items() if not cleared and key not in unset)
    for word in own:
        key, equals, value = word.text.partition("=")
        if equals and word.unknown is None and not key.startswith("-"):
            yield key, value


def _own(words: Sequence[Word]) -> Iterator[Word]:
    """The words that are options, their values and settings."""
    before = ""
    for word in words:
        if not (word.text.startswith("-") or "=" in word.text or before in _VALUED):
            return
        yield word
        before = word.text
