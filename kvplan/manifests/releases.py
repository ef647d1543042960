"""A command's flags held against the release that it is planned for: those that the release lacks, and values it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvplan.errors import UnknownName
from kvplan.manifests import names
from kvplan.manifests.command import GivenFlag
from kvplan.manifests.said import Level, Remark
from kvplan.text import meant

WARN: Level = "warn"
ERROR: Level = "error"


def remarks(flags: Iterable[GivenFlag], version: str | None) -> Iterator[Remark]:
    """What a release says to the flags. version: as whoever asked for it wrote it; None where nobody did."""
    from kvplan.engines.vllm.tables.versions import NEWEST, text

    release, called = known_release(version), f"vLLM {version or text(NEWEST)}"
    # Where nobody names a release it is planned as the newest, and may be run by one that still has the flag.
    planned, level = (NEWEST, WARN) if version is None else (release, ERROR)
    for flag in flags:
        if not names.has(flag.name):
            hint = meant(flag.name, names.KNOWN, dashes="--", cutoff=0.8)
            what = f"{called} has no flag --{flag.name}" + (f"; {hint}" if hint else "")
            # Only the newest release's server was read whole: of another one, a flag that nobody knows may be its own.
            surely = release is not None and names.newest(release)
            yield Remark("unknown-flag", what, flag.place, ERROR if surely else WARN)
        elif planned is None:
            continue
        elif names.lacks(planned, flag.name):
            what = f"{called} has no flag --{flag.name}{names.having(planned, flag.name)}"
            yield Remark("unknown-flag", what, flag.place, level)
        elif flag.text is not None and names.refuses(planned, flag.name, flag.text):
            yield Remark("bad-argument", f"{called} refuses --{flag.name} {flag.text}", flag.place, level)


def lacked(flags: Iterable[GivenFlag], version: str | None) -> frozenset[str]:
    """Names of those that a release, where one is asked for, certainly hasn't."""
    release = known_release(version)
    return frozenset(flag.name for flag in flags if release is not None and names.lacks(release, flag.name))


def known_release(version: str | None) -> tuple[int, int, int] | None:
    """A release by its number; None for none, for one before its release, and for one that nobody can place."""
    from kvplan.engines.vllm.tables.versions import early, parse

    try:
        return None if version is None or early(version) else parse(version)
    except UnknownName:
        return None
