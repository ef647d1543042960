"""What a checkpoint's own headers say, whatever the file format: every tensor's name, dtype, shape and bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from kvplan.errors import UsageError
from kvplan.sources.checkpoints.shards import WHOLE


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as its file stores it.

    dtype: in the format's own words (`BF16`, `Q4_K`). shape: as stored. bytes: in the file, with the scales of GGUF
    blocks.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Headers:
    """All tensors of a checkpoint.

    files: their number. read: bytes read or transferred for the headers. source: where the files are, for the report.
    metadata: of a GGUF file, scalars and strings only. absent: tensors that the index names and no file has.
    """

    tensors: tuple[Tensor, ...]
    files: int
    read: int
    source: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)


_LAYER = re.compile(r"(?:^|\.)(?:h|blk|\w*layers?|\w*blocks?)\.(\d+)\.")


class Numbered(NamedTuple):
    """A tensor's name in parts. stem: before the layer's number, "" outside the layers. inner: after it."""

    stem: str
    number: int | None
    inner: str


def numbered(name: str) -> Numbered:
    """`model.layers.3.mlp.gate.weight` as model.layers, 3 and mlp.gate.weight. The first number is the layer's."""
    found = _LAYER.search(name)
    if found is None:
        return Numbered("", None, name)
    return Numbered(name[: found.start(1) - 1], int(found[1]), name[found.end() :])


def joined(parts: Iterable[Headers], source: str, read: int = 0) -> Headers:
    """Headers of several files as one checkpoint. read: further bytes that were read (an index).

    A tensor in several files is one parameter, which engines load once.

    Raises: UsageError if two files have it in different sizes, and neither is the model by its name.
    """
    listed = sorted(parts, key=lambda part: PurePath(part.source).name != WHOLE)
    held: dict[str, tuple[Tensor, Headers]] = {}
    for part in listed:
        for tensor in part.tensors:
            first, holder = held.setdefault(tensor.name, (tensor, part))
            if first.bytes != tensor.bytes and PurePath(holder.source).name != WHOLE:
                raise _two_copies(holder, part)
    tensors = tuple(tensor for tensor, _ in held.values())
    metadata = listed[0].metadata if listed else {}
    return Headers(tensors, len(listed), read + sum(part.read for part in listed), source, metadata)


def _two_copies(one: Headers, other: Headers) -> UsageError:
    names = sorted(PurePath(part.source).name for part in (one, other))
    return UsageError(
        f"{names[0]} and {names[1]} are two copies of the same tensors",
        cause="in different sizes",
        hint=f"keep one of them, or call it {WHOLE}",
    )
