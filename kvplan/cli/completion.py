"""Shell completion: scripts that ask `kvplan __complete`, and the answers: commands, flags, models, GPUs, formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kvplan.cli.command import MODULES, Command, load
from kvplan.cli.option import Option
from kvplan.errors import UnknownName

BASH = """\
_kvplan() {
    local IFS=$'\\n' word="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($(kvplan __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -o nosort -o filenames -F _kvplan kvplan
"""

ZSH = """\
#compdef kvplan
_kvplan() {
    local -a found
    found=(${(f)"$(kvplan __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -Q -a found; else _files; fi
}
compdef _kvplan kvplan
"""

FISH = """\
function __kvplan_complete
    kvplan __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c kvplan -f -a '(__kvplan_complete)'
complete -c kvplan -F -n 'not __kvplan_complete | string length -q'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def script(shell: str) -> str:
    """The script that a shell sources.

    Raises: UnknownName.
    """
    if shell not in SCRIPTS:
        raise UnknownName(f"no completion for {shell!r}", hint="known: " + ", ".join(SCRIPTS))
    return SCRIPTS[shell]


def candidates(words: Sequence[str]) -> tuple[str, ...]:
    """What could stand for the last of the words after `kvplan`; empty where a file name could."""
    *before, word = words or ("",)
    if not before:
        return _starting(word, (*MODULES, "--help", "--version"))
    if before[0] not in MODULES:
        return ()
    command = load(before[0])
    flags = {option.flag: option for option in command.options}
    asked = flags.get(before[-1])
    if asked is not None and asked.metavar is not None:
        return _of_value(asked, word)
    name, equals, text = word.partition("=")
    if equals and name in flags:
        return tuple(f"{name}={found}" for found in _of_value(flags[name], text))
    if word.startswith("-"):
        return _starting(word, flags)
    return _of_arguments(command, word)


def _of_value(option: Option[Any], word: str) -> tuple[str, ...]:
    """Values of one flag; after a comma or colon of a list, its next element."""
    known = VALUES.get(option.completes or "", tuple)()
    cut = max(word.rfind(","), word.rfind(":") if option.completes == "dtypes" else -1) + 1
    return tuple(word[:cut] + found for found in _starting(word[cut:], known))


def _of_arguments(command: Command, word: str) -> tuple[str, ...]:
    found = [name for argument in command.arguments for name in VALUES.get(argument.completes or "", tuple)()]
    return _starting(word, found)


def _starting(word: str, known: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in known if name.startswith(word))


def _models() -> tuple[str, ...]:
    from kvplan.sources.models import model_names

    return model_names()


def _gpus() -> tuple[str, ...]:
    from kvplan.sources.gpus import AUTO, all_gpus

    names = [name for gpu in all_gpus() for name in (gpu.id, *gpu.aliases) if " " not in name]
    return (AUTO, *dict.fromkeys(names))


def _dtypes() -> tuple[str, ...]:
    from kvplan.arch.formats import FORMATS

    return ("auto", *FORMATS)


def _engines() -> tuple[str, ...]:
    from kvplan.engines.registry import names

    return names()


def _formats() -> tuple[str, ...]:
    from kvplan.report.render import FORMATS

    return FORMATS


def _schemas() -> tuple[str, ...]:
    from kvplan.report.schema import DOCUMENTS

    return tuple(DOCUMENTS)


VALUES: dict[str, Callable[[], tuple[str, ...]]] = {
    "models": _models,
    "gpus": _gpus,
    "dtypes": _dtypes,
    "engines": _engines,
    "formats": _formats,
    "schemas": _schemas,
    "attentions": lambda: ("mha", "gqa", "mqa", "mla"),
    "colours": lambda: ("auto", "always", "never"),
    "shells": lambda: tuple(SCRIPTS),
}
