"""Engines by name: `vllm`, `vllm@0.19.0`, `ideal`. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kvplan.errors import UnknownName
from kvplan.text import meant

if TYPE_CHECKING:
    from kvplan.engines.protocol import Engine


class Spec(NamedTuple):
    """An engine as it is asked for. version: None where none is named."""

    name: str
    version: str | None

    @classmethod
    def parse(cls, written: str) -> Spec:
        """`NAME`, `NAME@VERSION` or pip's `NAME==VERSION` taken apart, however it is spaced and capitalized."""
        name, at, version = (part.strip() for part in written.lower().replace("==", "@").partition("@"))
        return cls(name, version if at else None)


class Found(NamedTuple):
    """An engine, whether its rules were read from the version asked for, and if not, why not."""

    engine: Engine
    verified: bool = True
    note: str | None = None


class Rule(NamedTuple):
    """A rule of an engine: the version it starts at, what it says, who says so, and whether the release is certain."""

    since: str
    says: str
    source: str
    certain: bool = True


class About(NamedTuple):
    """What kvplan knows of an engine: the version used when none is named, and every rule with its source."""

    name: str
    newest: str | None
    oldest: str | None
    rules: tuple[Rule, ...]


class _Entry(NamedTuple):
    """forms: what its plans are written as, by what is typed after --emit.

    flags: the key of the table that its own flags are read by, in budgets and serve commands; None for one without.
    """

    find: Callable[[str | None], Found]
    about: Callable[[], About]
    forms: tuple[str, ...] = ()
    flags: str | None = None


def _ideal(version: str | None) -> Found:
    from kvplan.engines.ideal import Ideal

    if version is not None:
        raise UnknownName(f"ideal has no version {version}", hint="--engine ideal: the formula never changes")
    return Found(Ideal())


def _about_ideal() -> About:
    rule = Rule("", "sequences x bytes of a sequence, nothing rounded or reserved", "the models' own papers, see docs")
    return About("ideal", None, None, (rule,))


def _vllm(version: str | None) -> Found:
    from kvplan.engines.vllm.policy import Vllm
    from kvplan.engines.vllm.tables.releases import RELEASES
    from kvplan.engines.vllm.tables.versions import NEWEST, OLDEST, early, parse, text

    if version is None:
        return Found(Vllm())
    asked = parse(version)
    if asked < OLDEST:
        raise UnknownName(
            f"vLLM {text(asked)} is older than the rules kvplan knows", hint=f"--engine vllm@{text(OLDEST)}"
        )
    if asked > NEWEST:
        note = f"vLLM {text(asked)} is newer than the rules kvplan knows: planned as {text(NEWEST)}, unverified"
        return Found(Vllm(NEWEST, verified=False), verified=False, note=note)
    if early(version):
        note = f"vLLM {version} came before its release: planned as {text(asked)}, unverified"
        return Found(Vllm(asked, verified=False), verified=False, note=note)
    if text(asked) not in RELEASES:
        before = max(each for each in map(parse, RELEASES) if each < asked)
        note = f"kvplan read no vLLM {text(asked)}: planned as {text(before)}, unverified"
        return Found(Vllm(before, verified=False), verified=False, note=note)
    return Found(Vllm(asked))


def _about_vllm() -> About:
    from kvplan.engines.vllm.tables.changes import CHANGES
    from kvplan.engines.vllm.tables.versions import NEWEST, OLDEST, text

    rules = tuple(Rule(text(change.since), change.says, change.source, change.sure) for change in CHANGES)
    return About("vllm", text(NEWEST), text(OLDEST), rules)


_ENGINES = {
    "ideal": _Entry(_ideal, _about_ideal),
    "vllm": _Entry(_vllm, _about_vllm, ("vllm", "k8s"), flags="vllm"),
}


@cache
def find(spec: str) -> Found:
    """The engine `NAME` or `NAME@VERSION` names.

    Raises: UnknownName, with the nearest name.
    """
    name, version = Spec.parse(spec)
    entry = _ENGINES.get(name)
    if entry is None:
        raise UnknownName(
            f"{name!r} is not an engine kvplan plans for",
            hint=meant(name, _ENGINES) or f"known: {', '.join(_ENGINES)}",
        )
    return entry.find(version)


def engine(spec: str) -> Engine:
    """The engine `NAME` or `NAME@VERSION` names.

    Raises: UnknownName.
    """
    return find(spec).engine


def flags_of(spec: str) -> str | None:
    """The key of the table that an engine's own flags are read by; None for one without, and where no engine is called so."""
    entry = _ENGINES.get(Spec.parse(spec).name)
    return None if entry is None else entry.flags


def engines() -> tuple[About, ...]:
    """Every engine kvplan plans for, with its versions and rules."""
    return tuple(entry.about() for entry in _ENGINES.values())


def names() -> tuple[str, ...]:
    """Names that `engine` answers to."""
    return tuple(_ENGINES)


def forms() -> dict[str, str]:
    """What plans are written as, each with an engine that writes it."""
    return {form: name for name, entry in _ENGINES.items() for form in entry.forms}
