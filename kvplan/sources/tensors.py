"""What a checkpoint's own headers say: every tensor's name, dtype, shape and bytes. The same for every file format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as its file stores it.

    dtype: in the file's own words (`BF16`, `Q4_K`). shape: as stored. bytes: it takes in the file, scales of GGUF blocks
    included.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Headers:
    """All tensors of a checkpoint.

    files: their number. read: bytes read or transferred to learn this. source: where the files are, for the report.
    metadata: of a GGUF file, scalars and strings only.
    """

    tensors: tuple[Tensor, ...]
    files: int
    read: int
    source: str
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)


_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk|layer)\.(\d+)\.")


def layer_of(name: str) -> int | None:
    """Number of the layer that a tensor belongs to; None outside the layers."""
    found = _LAYER.search(name)
    return None if found is None else int(found[1])


def joined(parts: Iterable[Headers], source: str, read: int = 0) -> Headers:
    """Headers of several files as one checkpoint. read: bytes read beside theirs (an index)."""
    listed = list(parts)
    tensors = tuple(tensor for part in listed for tensor in part.tensors)
    metadata = listed[0].metadata if listed else {}
    return Headers(tensors, len(listed), read + sum(part.read for part in listed), source, metadata)
