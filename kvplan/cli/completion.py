"""Shell completion of models, GPUs, formats and engines. click brings the shells' scripts and asks for candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from click.shell_completion import CompletionItem, get_completion_class

from kvplan.errors import UnknownName

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The script for a shell to source.

    Raises: UnknownName.
    """
    from kvplan.cli.app import COMPLETE, NAME, build

    known = get_completion_class(shell) if shell in SHELLS else None
    if known is None:
        raise UnknownName(f"no completion for {shell!r}", hint="known: " + ", ".join(SHELLS))
    return known(build(), {}, NAME, COMPLETE).source()


def candidates(what: str | None, word: str, choices: Iterable[str] = ()) -> list[CompletionItem]:
    """Completions of `incomplete`; in a list, of the part after its last comma. A file name if there are none."""
    names = (*choices, *VALUES.get(what or "", tuple)())
    cut = max(word.rfind(","), word.rfind(":") if what in {"dtypes", "held_dtypes"} else -1) + 1
    found = [CompletionItem(word[:cut] + name) for name in names if name.startswith(word[cut:])]
    wants_file = what in {"files", "models"} and not found
    return [CompletionItem(word, type="file")] if wants_file else found


def _models() -> Iterable[str]:
    from kvplan.sources.models import model_names

    return model_names()


def _gpus() -> Iterable[str]:
    from kvplan.sources.gpus import AUTO, all_gpus

    return dict.fromkeys([AUTO, *(name for gpu in all_gpus() for name in (gpu.id, *gpu.aliases) if " " not in name)])


def _dtypes() -> Iterable[str]:
    from kvplan.arch.formats import FORMATS

    return ("auto", *FORMATS)


def _held_dtypes() -> Iterable[str]:
    from kvplan.verify.options import HELD_FORMATS

    return ("auto", *HELD_FORMATS)


def _weight_dtypes() -> Iterable[str]:
    from kvplan.api.given import weight_formats

    return (name.replace("_", "-") if name.startswith(("fp8", "int")) else name for name in weight_formats())


def _engines() -> Iterable[str]:
    from kvplan.engines.registry import names

    return names()


def _forms() -> Iterable[str]:
    from kvplan.engines.registry import forms

    return forms()


def _attentions() -> Iterable[str]:
    from kvplan.plan.shapes import KINDS

    return KINDS


def _schemas() -> Iterable[str]:
    from kvplan.report.schema import DOCUMENTS

    return DOCUMENTS


VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "models": _models,
    "gpus": _gpus,
    "dtypes": _dtypes,
    "held_dtypes": _held_dtypes,
    "weight_dtypes": _weight_dtypes,
    "engines": _engines,
    "schemas": _schemas,
    "attentions": _attentions,
    "forms": _forms,
    "shells": lambda: SHELLS,
}
