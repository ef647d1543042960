"""Commands that may change the installed vLLM without saying so. They aren't read, so no release is certain after them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kvplan.manifests.shell.options import operands, program
from kvplan.manifests.shell.word import Word

SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SAYING = frozenset(
    {"echo", "printf", "grep", "cat", "sed", "awk", "export", "log", "logger", "[", "[[", "test", "exit"}
)
"""Commands that only talk about others."""
_ENGINES = frozenset({"docker", "podman", "nerdctl"})
_INSTALLS = re.compile(
    r"\b(?:pip[\d.]*|uv|conda|mamba|micromamba|poetry|pipx)\b[^;&|]*\b(?:install|add|create)\b[^;&|]*\bvllm\b"
)
_CHANGES = re.compile(r"install|activate|\bsync\b|\bPATH=", re.IGNORECASE)
"""What a text says that a shell is given, if that matters."""
_SETTINGS = re.compile(
    r"(?:^|/)(?:\.\w*rc|\.\w*profile|profile|(?:conda|mamba|modules?|lmod|nvm)\.sh|[\w.-]*\.env|env)$"
)
"""Files that are sourced for a shell's own settings, or for variables."""
_OTHERWISE = re.compile(
    r"ray|serv[ei]|cluster|wait|download|health|detect|check|monitor|token|secret|data|(?:^|[_.-])keys?(?:[_.-]|$)",
    re.IGNORECASE,
)
"""What scripts are called that do other things than install."""
_PREPARES = re.compile(r"install|setup|build|update|upgrade|env", re.IGNORECASE)
"""What those are called that may do so all the same: `install-server.sh`."""
_TOOLCHAINS = re.compile(
    r"(?:purge|load|add|use|list|avail|unload|swap|-\S*|[A-Z0-9/]*/\S*modul\S*"
    r"|(?:\w+/)?(?:cuda\w*|gcc|nccl|cudnn|openmpi|cmake|git|rocm|apptainer|singularity\w*|slurm|nvhpc|intel\w*|ninja|hpcx|libfabric|aws-ofi\S*)(?:/\S*)?)",
    re.IGNORECASE,
)
"""Words of `module load` that bring no Python."""
_TOOLS_PATHS = re.compile(r"cuda|rocm|nvidia|/\.(?:local|cargo)/|slurm", re.IGNORECASE)
"""Folders of programs that aren't an environment of Python's."""
_MODULES = ("module", "ml")
_SWITCHING = frozenset({"spack", "workon", "pyenv", "asdf", "mise", "direnv", "guix", "nix-env"})
"""Programs that put other software in front."""
_MAKING = frozenset({"make", "just", "alias", "python", "python3"})
"""Programs that do so if their words say that they install, or are vLLM's name: `python setup.py install`, `alias vllm=/x/vllm`."""
_MADE = re.compile(r"install|develop|setup\.py|vllm=.*", re.ASCII)


def installs(words: Sequence[Word]) -> bool:
    """Whether a command that is no installer itself has vLLM installed, somewhere: `bash -c "pip install vllm"`, `ssh h pip install vllm`."""
    if not words or program(words[0]) in _SAYING:
        return False
    runs = program(words[0]) in _ENGINES and any(word.text in {"run", "build", "create"} for word in words[:4])
    return not runs and mentions(" ".join(word.text for word in words))


def mentions(script: str) -> bool:
    """Whether a text says that vLLM is installed."""
    return _INSTALLS.search(script) is not None


def _loads(rest: Sequence[Word]) -> bool:
    """Whether `module load` brings more than compilers and libraries."""
    return any(_TOOLCHAINS.fullmatch(word.text) is None for word in rest)


def _makes(rest: Sequence[Word]) -> bool:
    return any(_MADE.fullmatch(word.text) for word in rest)


def _says(rest: Sequence[Word]) -> bool:
    """Whether a shell is told to change something."""
    return any(_CHANGES.search(word.text) for word in rest)


def _shells(rest: Sequence[Word]) -> bool:
    """Whether `bash FILE` or `bash -c SCRIPT` may, or `bash` that reads what a pipe brings."""
    if any(word.text.startswith("-") and word.text.endswith("c") for word in rest[:4]):
        return _says(rest)
    return _runs(next((program(rest[at]) for at in operands(rest, frozenset({"-o"}))), ""))


def _sources(rest: Sequence[Word]) -> bool:
    return bool(rest) and _SETTINGS.search(rest[0].text) is None and _runs(program(rest[0]))


def _runs(script: str) -> bool:
    """Whether a script may by its name."""
    return _PREPARES.search(script) is not None or _OTHERWISE.search(script) is None


_TOUCHING: Mapping[str, Callable[[Sequence[Word]], bool]] = {
    **dict.fromkeys(_SWITCHING, bool),
    **dict.fromkeys(_MAKING, _makes),
    **dict.fromkeys(SHELLS, _shells),
    **dict.fromkeys(_MODULES, _loads),
    **dict.fromkeys(("source", "."), _sources),
    "eval": _says,
}
"""By what follows them, whether programs change which vLLM is found."""


def touches(words: Sequence[Word]) -> bool:
    """Whether a command may change which vLLM is found: a script of its own, a sourced file, a module."""
    first = program(words[0]) if words else ""
    looks = _TOUCHING.get(first)
    return looks(words[1:]) if looks is not None else first.endswith(".sh") and _runs(first)


def modules(words: Sequence[Word]) -> bool:
    """Whether a module of vLLM's is loaded."""
    return bool(words) and program(words[0]) in _MODULES and any("vllm" in word.text.lower() for word in words)


def shadows(setting: str) -> bool:
    """Whether `PYTHONPATH=value` has Python find another vLLM than the installed one."""
    return "vllm" in setting.lower()


def environments(path: str) -> str:
    """The folder that a value of PATH puts before all others, if it may be an environment of Python's; "" for none."""
    first = path.partition(":")[0]
    is_one = first.endswith("/bin") and _TOOLS_PATHS.search(first + "/") is None
    return first.removesuffix("/bin") if is_one else ""


_WRAPPERS = frozenset({
    "srun", "mpirun", "mpiexec", "numactl", "timeout", "taskset", "stdbuf", "tmux", "screen", "nsys", "ncu", "setsid", "unbuffer", "script",
    "tini", "dumb-init", "gosu", "su", "runuser", "ionice", "chrt", "torchrun", "accelerate", "uv", "uvx", "pipx", "xargs", "catchsegv",
    "strace", "gdb", "watch", "parallel", "sudo", "env", "nice", "time", "nohup", "exec", "command", "trap", "eval", "daemonize", "py-spy",
})  # fmt: skip
"""Programs that run another one where they stand."""


def stays(words: Sequence[Word], *, quoted: bool = False) -> bool:
    """Whether a command runs what it runs in the environment that it stands in: certainly not `ssh`, `kubectl exec`, `poetry run`.

    quoted: whether what it runs stands in one of its words; else that begins with Python, vLLM or a shell.
    """
    if not words:
        return True
    at = next((at for at, word in enumerate(words) if runs_python(word) or program(word) in SHELLS), None)
    first = program(words[0])
    known = first in _WRAPPERS or first.startswith("-") or first.endswith(".sh")
    return known or at == 0 or (at is None and not quoted)


def runs_python(word: Word) -> bool:
    """Whether a word is a program of a Python environment: Python, or vLLM's own."""
    return program(word) == "vllm" or program(word).startswith("python")
