"""Releases that have a name, as the tables keep them: `0.6.0`, `0.8.3-0.10.2`, or several of these.

A value is the first release, and the last one where a later release lost the name.
"""

from __future__ import annotations

from functools import cache

from kvplan.engines.vllm.tables.versions import Version, parse


@cache
def spans(written: str) -> tuple[tuple[Version, Version | None], ...]:
    """First and last release of each span; no last one where it is still open."""
    ends = (each.partition("-") for each in written.split())
    return tuple((parse(start), parse(end) if end else None) for start, _, end in ends)


def holds(written: str, version: Version) -> bool:
    """Whether a release has the name."""
    return any(start <= version and (end is None or version <= end) for start, end in spans(written))


def first(written: str) -> Version:
    """The first release that has the name."""
    return min(start for start, _ in spans(written))


def last(written: str) -> Version | None:
    """The last release that has the name; None where the newest has."""
    return spans(written)[-1][1]
