"""Containers, whoever describes them: from image, command, args and environment to the serve command inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from kvplan.engines.vllm.tables.flags import FLAGS
from kvplan.manifests.flags.arguments import read_arguments
from kvplan.manifests.flags.command import Arguments, CantRead, Command
from kvplan.manifests.flags.layer import layer_of
from kvplan.manifests.flags.releases import known_release
from kvplan.manifests.installed.images import is_vllm_image, serves_itself, split
from kvplan.manifests.installed.installs import Installed
from kvplan.manifests.installed.touching import SHELLS
from kvplan.manifests.placeholders import marked
from kvplan.manifests.places import Hidden, Place, Remark, Unread
from kvplan.manifests.processes import apptainer, launchers, surroundings
from kvplan.manifests.processes.container import Container, Served, served
from kvplan.manifests.processes.docker import (
    TELLING,
    docker,
    entered,
    enters,
    hidden_program,
    kubectl,
    runs_image,
    starts_unknown,
)
from kvplan.manifests.processes.folders import of_commands
from kvplan.manifests.processes.slurm import srun, submitted
from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.parser import Word, surrounded

API_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
CLI_MODULE = "vllm.entrypoints.cli.main"
OTHERS = {
    "sglang": "SGLang", "sglang.launch_server": "SGLang", "llama-server": "llama.cpp", "trtllm-serve": "TensorRT-LLM",
    "dynamo.vllm": "Dynamo's worker", "lmcache_vllm": "LMCache's own vLLM", "tritonserver": "Triton", "text-generation-launcher": "TGI", "lmdeploy": "LMDeploy", "ollama": "Ollama",
}  # fmt: skip
"""Words that start another engine's server."""


def served_by(container: Container, depth: int = 0) -> Served:
    """The serve commands of one container: none, one, or what keeps one from being read."""
    found = _by_image(container)
    if found is None:
        found = _by_words(container, depth)
        found = _hidden(container) if found == Served() else found
    return found


def _by_words(container: Container, depth: int) -> Served:
    """What its own words serve."""
    found = Served()
    container = launchers.process(container.words, container)
    job = srun(container.words, container)
    script = _simple(list(container.words), job)
    if any(gathers(words) for words, *_ in script):
        container, job = replace(container, nodes=None), replace(job, nodes=None)
    for words, variables, installed, folder in script:
        known = {**container.variables, **variables}
        release = installed.running(words) or job.release
        ready = replace(job, variables=known, installed=installed, release=release, folder=folder)
        around_it = replace(container, variables=known, installed=installed, folder=folder)
        here, outer = (launchers.process(words, each) for each in (ready, around_it))
        found += _command(words, srun(words, here), submitted(words, outer), depth)
    return _twice(found, container)


def _by_image(container: Container) -> Served | None:
    """What an image serves that begins with vLLM itself; None for a container that begins with a program of its own."""
    if container.image is None or container.entrypoint or not is_vllm_image(container.image):
        return None
    if container.words and _program(container.words[0]):
        return None
    second = bool(container.words) and container.words[0].text == "serve"
    words = list(container.words[1:] if second else container.words)
    if _finds(words) or _other(words) is not None:
        return None
    found = _read(container, words, positional=True)
    model = second and bool(words) and not words[0].text.startswith("-")
    return _twice(found, container) if model else found


_PROGRAM = re.compile(r"(?:.*/)?(?:python[\d.]*|pip[\d.]*|env|ray|tini|[\w.-]+\.sh)|/(?:usr/)?s?bin/.*", re.ASCII)


def _installs_chart(words: Sequence[Word]) -> bool:
    """Whether helm installs a chart of vLLM's, or one that is told a model's address."""
    texts = [word.text for word in words]
    if program(words[0]) != "helm" or {"install", "upgrade"}.isdisjoint(texts[1:MOST_BEFORE]):
        return False
    return any(text.startswith("vllm/") or ("modelURL=" in text and "[" in text) for text in texts)


def _program(word: Word) -> bool:
    """Whether a first word certainly is a program, and no model."""
    return program(word) in SHELLS | _IDLE or _PROGRAM.fullmatch(word.text) is not None


def _command(words: Sequence[Word], here: Container, container: Container, depth: int) -> Served:
    """What one command of a container's script serves. here: the process that it runs in."""
    if program(words[0]) in _QUOTING:
        return Served()
    started = docker(words, here) or kubectl(words, here) or apptainer.started(words, here)
    if started is not None:
        return served_by(started, depth)
    if (inside := entered(words, here)) is not None:
        return _by_words(inside, depth)
    if (rest := serve_arguments(words)) is not None:
        return replace(_read(here, rest[0], positional=rest[1]), lines=frozenset({words[0].line}))
    if (why := _unreadable(words)) is not None:
        return Served(unread=(Unread(container.name, why, container.place),))
    return _inside(words, container, depth)


def _twice(found: Served, container: Container) -> Served:
    """The same, where an image that starts vLLM's server itself is given a whole command: an error."""
    if container.image is None or container.entrypoint or not serves_itself(container.image):
        return found
    first, line = container.words[0].text.split("\n")[0][:60], container.words[0].line
    text = (
        f"{container.image[:100]} starts vLLM's server itself, which doesn't expect {first!r}: "
        "leave that out and begin with the model, or give the whole as another entrypoint (`command:` in a pod)"
    )
    remark = Remark("bad-argument", text, Place(container.file, line), "error")
    return replace(found, commands=tuple(replace(each, noted=(*each.noted, remark)) for each in found.commands))


def _unreadable(words: Sequence[Word]) -> str | None:
    """Why a command can't be read that seems to serve something."""
    if (hidden := hidden_program(words)) is not None:
        return f"it runs {hidden} serve, and which program that is, only the shell knows"
    if starts_unknown(words):
        return "which image it runs, only the shell knows"
    if _installs_chart(words):
        return "it installs a chart: pipe that into kvplan (helm template CHART ... | kvplan check -)"
    engine = _other(words)
    return None if engine is None else f"it starts {engine}, and kvplan reads vLLM's command lines"


_QUOTING = frozenset({
    "echo", "printf", "grep", "egrep", "pgrep", "pkill", "sed", "awk", "logger", "cat", "curl", "git", "export", "[", "[[", "test",
    "trap", "which", "read", "return", "exit",
})  # fmt: skip
"""Commands that only talk about others."""

_COMMAND = re.compile(r"\bvllm\s+serve\s+\S|-m\s+vllm\.entrypoints\.\S*(?:api_server|cli\.main\s+serve)")

_STARTED = re.compile(r"\b(?:docker|podman|nerdctl)\s(?:.*\s)?(?:run|create)\s.*vllm", re.DOTALL)
"""A container that is started there, with vLLM somewhere in its words."""

_OPTION = re.compile(r"^--[a-z-]+=", re.ASCII)
"""An option whose value is a command: `--wrap="vllm serve ..."`."""


def _inside(words: Sequence[Word], container: Container, depth: int) -> Served:
    """Commands that stand in one argument of another: `ssh host "vllm serve ..."`, `tmux new -d "..."`."""
    if not words or program(words[0]) in _QUOTING or depth >= MOST_SHELLS:
        return Served()
    found = Served()
    installed = container.installed.seen(words, quoted=True)
    for word in words[1:]:
        starts = _COMMAND.search(word.text) or (container.away and _STARTED.search(word.text))
        if starts and any(map(str.isspace, word.text)):
            text, line = _OPTION.sub("", word.script or word.text, count=1), word.script_line or word.line
            script = surrounded(text, line, container.variables, elsewhere=container.elsewhere, installed=installed)
            where = of_commands(script, container.folder)
            for (inner, variables, before), folder in zip(script.commands, where, strict=True):
                known = {**container.variables, **variables}
                process = replace(container, words=tuple(inner), entrypoint=True, image=None, variables=known)
                found += served_by(replace(process, installed=before, folder=folder), depth + 1)
    return found


def _hidden(container: Container) -> Served:
    """A container that surely serves with vLLM, by a program that isn't in the file."""
    words = [word.text.replace("_", "-") for word in container.words]
    image = container.image or ""
    telling = any(word.startswith(TELLING) for word in words)
    put_in = marked(Word(image, container.line)).unknown
    if put_in is not None and (telling or any(word.partition("=")[0] == "--model" for word in words)):
        why = f"its image is {image[:100]}, a placeholder: put the image's name in first"
        return Served(unread=(Unread(container.name, why, container.place),))
    if not words or container.image is None or not (telling or is_vllm_image(image)):
        return Served()
    first = words[0].rpartition("/")[2]
    waits = first in SHELLS and all(word.startswith("-") for word in words[1:])
    if not telling and (
        waits or first in _IDLE or first == "vllm" or _WORKER.search(" ".join(words))
    ):  # vllm bench, vllm chat
        return Served()
    why = f"it runs {container.words[0].text.split(chr(10))[0][:60]!r}, and what that serves doesn't stand here"
    if container.recipe is not None and first.startswith("-"):
        why = f"its image is built from {container.recipe}, and what serves there with these arguments isn't known here"
    return Served(unread=(Unread(container.name, why, container.place),))


_WORKER = re.compile(r"\bray\s+start\b|multi-node-serving\.sh\s+worker")
"""What workers run that the leader's command decides for."""
_IDLE = frozenset({"sleep", "tail", "nginx", "curl", "cp", "mkdir", "true", "nvidia-smi"})


def _finds(words: list[Word]) -> bool:
    return serve_arguments(words) is not None or any(_shell_script(words, at) for at in range(len(words)))


def gathers(words: Sequence[Word]) -> bool:
    """Whether a command makes one machine of several: `ray start --head`."""
    return [word.text for word in words[:2]] == ["ray", "start"] or any(
        program(word) == "multi-node-serving.sh" for word in words[:3]
    )


_Simple: TypeAlias = tuple[list[Word], Mapping[str, str], Installed, str | None]
"""A command, what its environment adds, what is installed before it, and the folder that it runs in."""


def _simple(words: list[Word], container: Container, depth: int = 0) -> list[_Simple]:
    """The command itself, or for `sh -c "..."` and `eval` what the script runs."""
    inside = runs_image(words) or enters(words) or apptainer.starts(words)  # where its shell runs too
    for at in range(len(words)) if not inside else ():
        found = ((_evaluated(words) or _mounted(words, container)) if at == 0 else None) or _shell_script(words, at)
        if found is not None and depth < MOST_SHELLS:
            script, given = found
            text, line = script.script or script.text, script.script_line or script.line
            before = container.installed.seen(words)
            inner = surrounded(text, line, container.variables, given, container.elsewhere, before)
            where = of_commands(inner, container.folder)
            return [
                (simple, {**around, **more}, before, there)
                for (command, around, installed), folder in zip(inner.commands, where, strict=True)
                for simple, more, before, there in _simple(
                    command, replace(container, installed=installed, folder=folder), depth + 1
                )
            ]
    return [(words, {}, container.installed, container.folder)] if words else []


_Started = tuple[Word, tuple[Word, ...] | None]
"""A script, and what it is started with, `$0` first; None where that is what its own shell was."""


def _evaluated(words: Sequence[Word]) -> _Started | None:
    """The script of `eval`, which takes all of its words for one."""
    if len(words) < 2 or words[0].text != "eval" or any(word.unknown is not None for word in words):
        return None
    return Word(" ".join(word.text for word in words[1:]), words[1].line), None


def _mounted(words: Sequence[Word], container: Container) -> _Started | None:
    """A script that the container finds mounted from the same file: `bash /scripts/run.sh ARGUMENT`, or that alone."""
    at = 0
    if program(words[0]) in SHELLS:
        at = next((at for at, word in enumerate(words) if at and not word.text.startswith("-")), 0)
        if not at or any(word.text.lstrip("-").endswith("c") for word in words[1:at]):
            return None
    path = words[at]
    found = container.find(path.text) if path.unknown is None and path.text.startswith("/") else None
    if found is None or found.name != container.file:
        return None
    return Word(found.text, found.first), tuple(words[at:])


MOST_SHELLS = 4


def _shell_script(words: Sequence[Word], at: int) -> _Started | None:
    """The script of `bash -lc SCRIPT NAME ARGUMENT...` that starts at `at`."""
    if program(words[at]) not in SHELLS:
        return None
    for index in range(at + 1, len(words) - 1):
        if not words[index].text.startswith("-"):
            return None
        if words[index].text.lstrip("-+").endswith("c") and not words[index].text.startswith("--"):
            rest = words[index + 2 if words[index + 1].text == "--" else index + 1 :]
            return (rest[0], tuple(rest[1:])) if rest else None
    return None


def serve_arguments(words: Sequence[Word]) -> tuple[list[Word], bool] | None:
    """The words after `vllm serve`, or after the API server's module; and whether a model may stand first."""
    for index, word in enumerate(words):
        following = words[index + 1].text if index + 1 < len(words) else ""
        if program(word) == "vllm" and following == "serve":
            return list(words[index + 2 :]), True
        if (
            word.text == "-m"
            and following == CLI_MODULE
            and [w.text for w in words[index + 2 : index + 3]] == ["serve"]
        ):
            return list(words[index + 3 :]), True
        if word.text == "-m" and following in API_MODULES:
            return list(words[index + 2 :]), False
        if word.text.endswith("vllm/entrypoints/openai/api_server.py"):
            return list(words[index + 1 :]), False
    return None


def _other(words: Sequence[Word]) -> str | None:
    """Another engine, where one is started: its program comes first, or after `-m`."""
    for index, word in enumerate(words[:MOST_BEFORE]):
        engine = OTHERS.get(program(word))
        if index + 1 < len(words) and words[index + 1].text in _TELLING_OF:
            continue
        if engine is not None and (index == 0 or words[index - 1].text == "-m" or words[0].text in {"env", "exec"}):
            return engine
    return None


MOST_BEFORE = 8
_TELLING_OF = frozenset(
    {"list", "ls", "ps", "pull", "push", "show", "stop", "rm", "cp", "create", "--version", "--help", "version"}
)
"""What other engines' programs do that serves nothing."""


def _another(container: Container, found: Arguments) -> bool:
    """Whether an image only has vLLM in its name (`gradio-vllm-openai`): it is given no flag of vLLM's engine."""
    name = split(container.image or "vllm")[0].rpartition("/")[2]
    return not container.entrypoint and not name.startswith("vllm") and not any(flag in FLAGS for flag in found.flags)


_MODELS = (("model",), ("draft",))
"""Keys whose values may be paths."""


def _read(container: Container, words: list[Word], *, positional: bool) -> Served:
    try:
        release = known_release(container.certain)
        found = read_arguments(words, container.file, container.find, positional=positional, release=release)
        layer = layer_of(found)
    except CantRead as error:
        return Served(unread=(Unread(container.name, str(error), error.place),))
    if ("model",) not in layer and _another(container, found):
        return Served()
    if (device := surroundings.device(container, found)) is not None:
        why = f"it runs on {device}, whose memory vLLM plans by other rules than a GPU's"
        line = words[0].line if words else container.line
        return Served(unread=(Unread(container.name, why, Place(container.file, line)),))
    paths = {key: layer[key] for key in _MODELS if key in layer and not isinstance(layer[key], Hidden)}
    layer |= {key: container.outside(path) for key, path in paths.items()}
    surroundings.check(container, found, layer)
    said = {**surroundings.layer(container, found), **layer}
    command = Command(
        container.name,
        container.place,
        said,
        tuple(found.remarks),
        found.given,
        container.anywhere,
        container.certain,
    )
    return served(command)
