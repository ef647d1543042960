"""A command's flags compared with the release that it is planned for: flags that it lacks, and values that it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvplan.errors import UnknownName
from kvplan.manifests.flags import names, transfer
from kvplan.manifests.flags.command import GivenFlag
from kvplan.manifests.places import Level, Remark
from kvplan.text import meant

if TYPE_CHECKING:
    from kvplan.engines.vllm.tables.versions import Version

WARN: Level = "warn"
ERROR: Level = "error"


@dataclass(frozen=True, slots=True)
class Asked:
    """The release that flags are held against.

    version: as whoever asked for it wrote it; None where nobody did. elsewhere: whether the image counts in another
    product's releases: without a version nothing is known of the vLLM in it.
    """

    version: str | None
    elsewhere: bool = False

    @property
    def release(self) -> Version | None:
        """It by its number; the newest where nobody names one, None where nobody can place it."""
        from kvplan.engines.vllm.tables.versions import NEWEST

        newest = self.version is None and not self.elsewhere
        return NEWEST if newest else known_release(self.version)

    @property
    def called(self) -> str:
        """It in a sentence."""
        from kvplan.engines.vllm.tables.versions import text

        release = self.version or (text(self.release) if self.release is not None else "")
        return f"vLLM {release}".rstrip()


def remarks(flags: Iterable[GivenFlag], asked: Asked) -> Iterator[Remark]:
    """What a release says to the flags."""
    release, planned, called = known_release(asked.version), asked.release, asked.called
    # Where nobody names a release it is planned as the newest, and may be run by one that still has the flag.
    level = WARN if asked.version is None else ERROR
    for flag in flags:
        if not names.has(flag.name):
            hint = meant(flag.name, names.KNOWN, dashes="--", cutoff=0.8)
            what = f"{called} has no flag {names.dashed(flag.name)}" + (f"; {hint}" if hint else "")
            # Where nobody names a release it may be run by one that is newer than all that were read.
            surely = release is not None and names.read(release)
            yield Remark("unknown-flag", what, flag.place, ERROR if surely else WARN)
        elif planned is None:
            continue
        elif names.lacks(planned, flag.name):
            what = f"{called} has no flag --{flag.name}{names.having(planned, flag.name)}"
            yield Remark("unknown-flag", what, flag.place, level)
        elif flag.text is not None and names.takes_nothing(flag.name, planned):
            what = f"{called} refuses --{flag.name} with the value {flag.text}: it is a switch, given alone or left out"
            yield Remark("bad-argument", what, flag.place, level)
        elif flag.text is not None and names.refuses(planned, flag.name, flag.text):
            yield Remark("bad-argument", f"{called} refuses --{flag.name} {flag.text}", flag.place, level)
        elif flag.name == transfer.TRANSFER and (gone := transfer.gone(flag.text or "", planned)) is not None:
            yield Remark("bad-argument", f"{called} has no KV connector {gone}", flag.place, level)


def refused(flags: Iterable[GivenFlag], asked: Asked) -> frozenset[str]:
    """Names of those that a release certainly hasn't, or whose value it doesn't take: nothing else is to be said of them."""
    release = asked.release
    return frozenset(flag.name for flag in flags if release is not None and _refuses(release, flag))


def _refuses(release: Version, flag: GivenFlag) -> bool:
    if flag.text is None:
        return names.lacks(release, flag.name)
    refuses = names.takes_nothing(flag.name, release) or names.refuses(release, flag.name, flag.text)
    return refuses or names.lacks(release, flag.name)


def known_release(version: str | None) -> Version | None:
    """A release by its number; None for none, for one before its release, and for one that nobody can place."""
    from kvplan.engines.vllm.tables.versions import early, parse

    try:
        return None if version is None or early(version) else parse(version)
    except UnknownName:
        return None
