"""Folders of the host that options of a command mount into a container.

Source: docker run (-v, --mount), https://apptainer.org/docs/user/latest bind_paths_and_mounts, pyxis --container-mounts,
enroot start --mount, shifter --volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.manifests.shell.options import options
from kvplan.manifests.shell.word import Word

Mount = tuple[str, str]
"""A folder or file of the host, and where it is in the container."""


def below(path: str, target: str, source: str) -> str | None:
    """Where a path lies that is `source` mounted at `target`, or below that; None for one that isn't."""
    if path == target:
        return source
    base = target.rstrip("/") + "/"
    return f"{source.rstrip('/')}/{path.removeprefix(base)}" if path.startswith(base) else None


def bound(words: Sequence[Word], *names: str) -> Iterator[Mount]:
    """What `NAME SOURCE:TARGET:ro,SOURCE` mounts; a source alone is mounted where it is."""
    for word in options(words, *names):
        for each in word.text.split(",") if word.unknown is None else ():
            source, _, rest = each.partition(":")
            yield source, rest.partition(":")[0] or source


def described(words: Sequence[Word]) -> Iterator[Mount]:
    """What `--mount type=bind,source=SOURCE,target=TARGET` mounts."""
    for word in options(words, "--mount"):
        said = dict(each.partition("=")[::2] for each in word.text.split(","))
        source = said.get("source") or said.get("src")
        target = said.get("target") or said.get("destination") or said.get("dst")
        if word.unknown is None and said.get("type") == "bind" and source and target:
            yield source, target
