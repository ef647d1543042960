"""Releases of vLLM as numbers, and the first and the last whose rules are known."""

from __future__ import annotations

import re
from functools import cache

from kvplan.errors import UnknownName

Version = tuple[int, int, int]

NEWEST: Version = (0, 33, 0)
OLDEST: Version = (0, 6, 0)
NEVER: Version = (1 << 20, 0, 0)
"""After every release: for what none has changed yet."""


_WRITTEN = re.compile(
    r"v?(?P<major>\d+)\.(?P<minor>\d+)(\.(?P<patch>\d+)(\.\d+)?)?(?P<before>\.?(rc|a|b|dev)\d*)?(\.?post\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?",
    re.ASCII,
)
"""A release as people type it, and as `vllm --version` prints it."""


@cache
def parse(name: str) -> Version:
    """`0.19.0`, `0.19` or `v0.6.4.post1+cu121` as numbers: of the release that it belongs to.

    Raises: UnknownName.
    """
    found = _WRITTEN.fullmatch(name.strip().lower())
    if found is None:
        raise UnknownName(f"{name!r} is not a vLLM version", hint=f"write it like vllm@{text(NEWEST)}")
    return int(found["major"]), int(found["minor"]), int(found["patch"] or 0)


def early(name: str) -> bool:
    """Whether a version is from before its release: a candidate or a build of the day."""
    return re.search(r"rc|dev|\d[ab]\d", name.lower().partition("+")[0]) is not None


def text(version: Version) -> str:
    """`0.19.0`."""
    return ".".join(map(str, version))
