"""Containers, whoever describes them: from image, command, args and environment to the serve command inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvplan.check.budget import Place, Unread
from kvplan.check.build import STRETCHED
from kvplan.check.merge import Given, Key, Placed
from kvplan.check.serving import environment, names
from kvplan.check.serving.arguments import read_arguments
from kvplan.check.serving.command import Arguments, CantRead, Command, FindConfig
from kvplan.check.serving.images import DEVICES, foreign_number, image_device, image_version, is_vllm_image
from kvplan.check.serving.meaning import layer_of
from kvplan.check.serving.words import Word, commands, surrounded

API_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
CLI_MODULE = "vllm.entrypoints.cli.main"
SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_RUNNERS = frozenset({"docker", "podman", "nerdctl"})
_RUNNING = frozenset({"run", "create"})

OTHERS = {
    "sglang": "SGLang", "sglang.launch_server": "SGLang", "llama-server": "llama.cpp", "trtllm-serve": "TensorRT-LLM",
    "dynamo.vllm": "Dynamo's worker", "tritonserver": "Triton", "text-generation-launcher": "TGI", "lmdeploy": "LMDeploy", "ollama": "Ollama",
}  # fmt: skip
"""Words that start another engine's server."""


def nothing(_path: str) -> None:
    """A config that isn't here."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container or process. words: its command and arguments. image: None outside of containers.

    entrypoint: whether `words` begin with a program, or continue the image's own entry point. variables: what is known
    of its environment. gpu: the accelerator its node is chosen by. gpus: how many it asks for. nodes: how many containers
    like it serve together, None where that isn't known. device: what it asks for that is no GPU of NVIDIA's or AMD's.
    inner: its own name beside others of the same object.
    """

    name: str
    file: str
    line: int
    words: tuple[Word, ...]
    image: str | None = None
    entrypoint: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    find: FindConfig = nothing
    gpu: Placed | None = None
    gpus: Placed | None = None
    nodes: int | None = 1
    device: str | None = None
    inner: str = ""

    @property
    def place(self) -> Place:
        """Where it begins."""
        return Place(self.file, self.line)


@dataclass(frozen=True, slots=True)
class Served:
    """What a file serves, and what in it couldn't be read."""

    commands: tuple[Command, ...] = ()
    unread: tuple[Unread, ...] = ()

    def __add__(self, other: Served) -> Served:
        return Served(self.commands + other.commands, self.unread + other.unread)


def served_by(container: Container, depth: int = 0) -> Served:
    """The serve commands of one container: none, one, or what keeps one from being read."""
    if container.image is not None and not container.entrypoint and is_vllm_image(container.image):
        words = list(container.words)
        words = words[1:] if words and words[0].text == "serve" else words
        if not _finds(words) and _other(words) is None:
            return _read(container, words, positional=True)
    found = Served()
    script = _simple(list(container.words), container.variables)
    if any(_gathers(words) for words, _ in script):
        container = replace(container, nodes=None)
    for words, variables in script:
        if _program(words[0]) in _QUOTING:
            continue
        here = replace(container, variables={**container.variables, **variables})
        where = _docker(words, here) or _kubectl(words, here) or container
        if (rest := serve_arguments(words)) is not None and where is container:
            found += _read(here, rest[0], positional=rest[1])
        elif where is not container:
            found += served_by(where, depth)
        elif _starts_unknown(words):
            why = "which image it runs, only the shell knows"
            found += Served(unread=(Unread(container.name, why, container.place),))
        elif (engine := _other(words)) is not None:
            why = f"it starts {engine}, and kvplan reads vLLM's command lines"
            found += Served(unread=(Unread(container.name, why, container.place),))
        else:
            found += _inside(words, container, depth)
    return found if found != Served() else _hidden(container)


_QUOTING = frozenset({
    "echo", "printf", "grep", "egrep", "pgrep", "pkill", "sed", "awk", "logger", "cat", "curl", "git", "export", "[", "[[", "test",
    "trap", "which", "read", "return", "exit",
})  # fmt: skip
"""Commands that only talk about others."""

_COMMAND = re.compile(r"\bvllm\s+serve\s|-m\s+vllm\.entrypoints\.\S*(?:api_server|cli\.main\s+serve)")


def _inside(words: Sequence[Word], container: Container, depth: int) -> Served:
    """Commands that stand in one argument of another: `ssh host "vllm serve ..."`, `tmux new -d "..."`."""
    if not words or _program(words[0]) in _QUOTING or depth >= MOST_SHELLS:
        return Served()
    found = Served()
    for word in words[1:]:
        if _COMMAND.search(word.text + " ") and any(map(str.isspace, word.text)):
            for inner in commands(word.script or word.text, word.script_line or word.line, container.variables):
                found += served_by(replace(container, words=tuple(inner), entrypoint=True, image=None), depth + 1)
    return found


_TELLING = (
    "--max-model-len",
    "--gpu-memory-utilization",
    "--max-num-seqs",
    "--kv-cache-dtype",
    "--max-num-batched-tokens",
)
"""Flags that hardly any other program has."""


def _hidden(container: Container) -> Served:
    """A container that surely serves with vLLM, by a program that isn't in the file."""
    words = [word.text.replace("_", "-") for word in container.words]
    image = container.image or ""
    telling = any(word.startswith(_TELLING) for word in words)
    if not words or container.image is None or not (telling or is_vllm_image(image)):
        return Served()
    first = words[0].rpartition("/")[2]
    if not telling and (first in _IDLE or first == "vllm" or _WORKER.search(" ".join(words))):  # vllm bench, vllm chat
        return Served()
    why = f"it runs {container.words[0].text.split(chr(10))[0][:60]!r}, and what that serves doesn't stand here"
    return Served(unread=(Unread(container.name, why, container.place),))


def _starts_unknown(words: Sequence[Word]) -> bool:
    """Whether a container is started from an image that nobody knows, with flags that only vLLM has."""
    return (
        _program(words[0]) in _RUNNERS | {"sudo"}
        and any(word.text in _RUNNING for word in words[:4])
        and any(word.unknown is not None for word in words)
        and any(word.text.replace("_", "-").startswith(_TELLING) for word in words)
    )


_WORKER = re.compile(r"\bray\s+start\b|multi-node-serving\.sh\s+worker")
"""What workers run that the leader's command decides for."""
_IDLE = frozenset({"sleep", "tail", "nginx", "curl", "cp", "mkdir", "true", "nvidia-smi"})


def _finds(words: list[Word]) -> bool:
    return serve_arguments(words) is not None or any(_shell_script(words, at) for at in range(len(words)))


def _gathers(words: Sequence[Word]) -> bool:
    """Whether a command makes one machine of several: `ray start --head`."""
    return [word.text for word in words[:2]] == ["ray", "start"] or any(
        _program(word) == "multi-node-serving.sh" for word in words[:3]
    )


def _simple(
    words: list[Word], variables: Mapping[str, str], depth: int = 0
) -> list[tuple[list[Word], Mapping[str, str]]]:
    """The command itself, or for `sh -c "..."` and `eval` what the script runs; each with what its environment adds."""
    for at in range(len(words)):
        script = _evaluated(words) if at == 0 else None
        script = script or _shell_script(words, at)
        if script is not None and depth < MOST_SHELLS:
            inner = surrounded(script.script or script.text, script.script_line or script.line, variables)
            return [
                (found, {**around, **more})
                for command, around in inner.commands
                for found, more in _simple(command, variables, depth + 1)
            ]
    return [(words, {})] if words else []


def _evaluated(words: Sequence[Word]) -> Word | None:
    """The script of `eval`, which takes all of its words for one."""
    if len(words) < 2 or words[0].text != "eval" or any(word.unknown is not None for word in words):
        return None
    return Word(" ".join(word.text for word in words[1:]), words[1].line)


MOST_SHELLS = 4


def _shell_script(words: Sequence[Word], at: int) -> Word | None:
    """The script of `bash -lc SCRIPT` that starts at `at`."""
    if _program(words[at]) not in SHELLS:
        return None
    for index in range(at + 1, len(words) - 1):
        if not words[index].text.startswith("-"):
            return None
        if words[index].text.lstrip("-+").endswith("c") and not words[index].text.startswith("--"):
            rest = [word for word in words[index + 1 :] if word.text != "--"]
            return rest[0] if rest else None
    return None


def serve_arguments(words: Sequence[Word]) -> tuple[list[Word], bool] | None:
    """The words after `vllm serve`, or after the API server's module; and whether a model may stand first."""
    for index, word in enumerate(words):
        following = words[index + 1].text if index + 1 < len(words) else ""
        if _program(word) == "vllm" and following == "serve":
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


def _program(word: Word) -> str:
    return word.text.rpartition("/")[2]


def _other(words: Sequence[Word]) -> str | None:
    """Another engine, where one is started: its program comes first, or after `-m`."""
    for index, word in enumerate(words[:MOST_BEFORE]):
        engine = OTHERS.get(_program(word))
        if engine is not None and (index == 0 or words[index - 1].text == "-m" or words[0].text in {"env", "exec"}):
            return engine
    return None


MOST_BEFORE = 8


def _docker(words: Sequence[Word], outer: Container) -> Container | None:
    """The container that `docker run ... IMAGE ARGS` starts, for a vLLM image."""
    if not words or _program(words[0]) not in _RUNNERS | {"sudo"}:
        return None
    if not any(word.text in _RUNNING for word in words):
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
                gpus=_gpu_count(gpus, outer.file) if gpus is not None else None,
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


def _kubectl(words: Sequence[Word], outer: Container) -> Container | None:
    """The container that `kubectl run NAME --image=IMAGE -- ARGS` starts."""
    if not words or _program(words[0]) not in {"kubectl", "oc"} or "run" not in [word.text for word in words[:4]]:
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


def _read(container: Container, words: list[Word], *, positional: bool) -> Served:
    try:
        found = read_arguments(words, container.file, container.find, positional=positional)
        layer = layer_of(found)
    except CantRead as error:
        return Served(unread=(Unread(container.name, str(error), error.place),))
    if ("model",) not in layer:
        return Served(unread=(Unread(container.name, "it names no model", container.place),))
    device = container.device or image_device(container.image or "") or _device(found)
    if device is not None:
        why = f"it runs on {device}, whose memory vLLM plans by other rules than a GPU's"
        line = words[0].line if words else container.line
        return Served(unread=(Unread(container.name, why, Place(container.file, line)),))
    _check_gpus(container, found, layer)
    _check_version(container, found)
    _check_environment(container, found)
    return Served((Command(container.name, container.place, {**_around(container), **layer}, tuple(found.remarks)),))


def _around(container: Container) -> dict[Key, Placed]:
    """What the container says beside the command: the engine's version and the accelerator."""
    layer: dict[Key, Placed] = {}
    version = image_version(container.image) if container.image else None
    if version is not None:
        layer[("engine",)] = Given(f"vllm@{version}", container.place)
    if container.gpu is not None:
        layer[("gpu",)] = container.gpu
    if container.variables.get(environment.LONGER, "0").lower() in {"1", "true"}:
        layer[("flags", STRETCHED)] = Given("true", container.place)
    return layer


def _check_version(container: Container, found: Arguments) -> None:
    """Flags and values that the image's own version doesn't have are refused, where that version's are known."""
    version = image_version(container.image) if container.image else None
    if version is None:
        return
    newest = f"{version}.".startswith(f"{names.CURRENT_VERSION}.")
    for name, value in found.flags.items():
        if (newest and name in names.GONE | names.GONE_SWITCHES) or _lacks(version, name):
            found.remark(
                "unknown-flag", f"vLLM {version} has no --{name}{_having(version, name)}", value.place, "error"
            )
        elif value.text is not None and _refuses(version, name, value.text):
            found.remark("bad-argument", f"vLLM {version} refuses --{name} {value.text}", value.place, "error")
    if newest:
        found.remarks[:] = [
            replace(remark, level="error") if remark.rule == "unknown-flag" else remark for remark in found.remarks
        ]


def _lacks(version: str, name: str) -> bool:
    """Whether a release that was read has no such flag of the engine's."""
    from kvplan.engines.vllm.tables.flags import FLAGS, RELEASES
    from kvplan.engines.vllm.tables.spans import holds
    from kvplan.engines.vllm.tables.versions import early, parse, text

    if name not in FLAGS or early(version):
        return False
    release = parse(version)
    return text(release) in RELEASES and not holds(FLAGS[name], release)


def _refuses(version: str, name: str, value: str) -> bool:
    """Whether a release that was read doesn't take a value that another one does."""
    from kvplan.engines.vllm.tables.choices import ever_taken, taken
    from kvplan.engines.vllm.tables.flags import RELEASES
    from kvplan.engines.vllm.tables.versions import early, parse, text

    release, word = parse(version), value.lower()
    known = text(release) in RELEASES and not early(version)
    return known and ever_taken(name, word) and word != "none" and not taken(name, word, release)


def _having(version: str, name: str) -> str:
    """Which release has it."""
    from kvplan.engines.vllm.tables.flags import FLAGS
    from kvplan.engines.vllm.tables.spans import first, last
    from kvplan.engines.vllm.tables.versions import parse, text

    written = FLAGS.get(name)
    if written is None:
        return ""
    end = last(written)
    if end is not None and end < parse(version):
        return f", which {text(end)} had last"
    return f", which came with {text(first(written))}"


def _device(found: Arguments) -> str | None:
    """What --device of earlier releases names."""
    value = found.flags.get("device")
    return DEVICES.get(value.text) if value is not None and value.text is not None else None


def _check_environment(container: Container, found: Arguments) -> None:
    """What stands around the command and isn't counted."""
    for text in environment.uncounted(container.variables):
        found.remark("not-counted", text, container.place)
    if container.image and foreign_number(container.image):
        text = f"{container.image[:100]} doesn't say which vLLM it holds: planned as the newest, unless --engine says otherwise"
        found.remark(UNSAID_VERSION, text, container.place)


UNSAID_VERSION = "engine-version"
"""The rule of a version that is taken for granted."""


def _check_gpus(container: Container, found: Arguments, layer: Mapping[Key, Placed]) -> None:
    """Whether the container has the GPUs that tensor parallelism needs; pipelines may reach over several nodes."""
    tp = layer.get(("parallel", "tp"))
    given, whose = _given_gpus(container)
    nodes = _nodes(container, found)
    if given is None or nodes is None:
        return
    size = int(tp.value) if tp is not None else 1
    if size > given * nodes > 0 and ("parallel", "pp") not in layer:
        place = tp.place if tp is not None else container.place
        several = f" on each of {nodes} nodes" if nodes > 1 else ""
        text = f"tensor parallel size {size} needs {size} GPUs, and {whose} {given}{several}"
        found.remark("gpu-count", text, place, "error")


def _given_gpus(container: Container) -> tuple[int | None, str]:
    """How many GPUs a container has, and who says so; None where nobody does."""
    asked = container.gpus
    count = int(str(asked.value)) if asked is not None and str(asked.value).isdigit() else None
    seen = environment.visible(container.variables)
    if seen is not None and (count is None or seen[1] < count):
        return seen[1], f"{seen[0]} shows it"
    return count, "the container asks for"


def _nodes(container: Container, found: Arguments) -> int | None:
    """Over how many nodes one server reaches; None where that isn't known."""
    value = found.flags.get("nnodes")
    if value is not None:
        return int(value.text) if value.text is not None and value.text.isdigit() else None
    executor = found.flags.get("distributed-executor-backend")
    return None if executor is not None and executor.text == "ray" else container.nodes
