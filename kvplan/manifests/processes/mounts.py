"""Folders of the host that options of a command mount into a container.

Source: docker run (-v, --mount, --tmpfs, --volumes-from), https://apptainer.org/docs/user/latest bind_paths_and_mounts, pyxis
--container-mounts, enroot start --mount, shifter --volume.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kvplan.manifests.shell.options import options
from kvplan.manifests.shell.word import Word

Mount = tuple[str | None, str | None]
"""A folder or file of the host, and where it is in the container; None for what the file doesn't say."""
ANYWHERE: Mount = (None, None)
"""What may be mounted at any place."""

_EXPANSION = re.compile(r"\$\{[^{}]*\}|\$\([^()]*\)|\$\w+|`[^`]*`")
"""What a shell puts something in the place of: its own signs must not be taken for those between source and target."""
_HIDDEN = "\0"


def outside(path: str, mounts: Iterable[Mount]) -> str | None:
    """Where a path of a container lies outside of it: the narrowest mount decides. None where that isn't mounted, or isn't known."""
    base, host = "", None
    for source, target in mounts:
        if target is None:
            return None
        at = target.rstrip("/") + "/"
        if f"{path}/".startswith(at) and len(at) >= len(base):
            base, host = at, source
    rest = path[len(base) :]
    return f"{host.rstrip('/')}/{rest}" if rest and host is not None else host


def volume(text: str, *, alone: bool = False) -> Mount:
    """What `SOURCE:TARGET:ro` mounts. alone: whether a source without a target is mounted where it is, and not a new volume."""
    source, colon, rest = hidden(text).partition(":")
    target = rest.partition(":")[0] if colon else source
    return _known(source) if colon or alone else None, _known(target)


def bound(words: Sequence[Word], *names: str) -> Iterator[Mount]:
    """What `NAME SOURCE:TARGET:ro,SOURCE` mounts."""
    for word in options(words, *names):
        yield from (volume(each, alone=True) for each in hidden(word.text).split(",") if "=" not in each)


def described(words: Sequence[Word]) -> Iterator[Mount]:
    """What `--mount type=bind,source=SOURCE,target=TARGET` mounts; of another type nobody can look at the source."""
    for word in options(words, "--mount"):
        said = dict(each.partition("=")[::2] for each in hidden(word.text).split(","))
        if "=" in word.text or word.unknown is not None:
            source = said.get("source") or said.get("src")
            target = said.get("target") or said.get("destination") or said.get("dst")
            yield _known(source) if said.get("type") == "bind" else None, _known(target)


def hidden(text: str) -> str:
    """A text with a sign that no path has in the place of what only a shell knows."""
    while (shown := _EXPANSION.sub(_HIDDEN, text)) != text:
        text = shown
    return text


def _known(path: str | None) -> str | None:
    return None if not path or _HIDDEN in path or "$" in path else path
