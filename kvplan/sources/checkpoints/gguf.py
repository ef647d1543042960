"""Headers of GGUF files: metadata and tensor descriptions, read without the tensors.

A header is trusted only as far as the file bears it out: counts, lengths and nesting are checked against the bytes left
before anything is read. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

from kvplan.errors import BadFile, Unsupported
from kvplan.sources.checkpoints.tensors import Headers, Tensor
from kvplan.units import MIB

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_HEADER_BYTES = 512 * MIB
MOST_NESTING = 4
ALIGNMENT = 32

BLOCKS: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""From ggml types to (name, elements of a block, bytes of a block). Source: ggml-common.h, and gguf-py constants.py."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class CutShort(BadFile):
    """The available bytes end before the header does. A whole file is truncated; of a part, more must be read."""


@dataclass(slots=True)
class _Reader:
    """Reads forward, and never beyond the available bytes."""

    file: BinaryIO
    size: int
    name: str
    at: int = 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.size - self.at:
            raise CutShort(
                f"{self.name} is cut short, or is not a GGUF file",
                cause=f"its header claims {count:,} more bytes where {self.size - self.at:,} are left",
                hint="download it again",
            )
        raw = self.file.read(count)
        if len(raw) != count:
            raise CutShort(f"{self.name} is cut short", hint="download it again")
        self.at += count
        return raw

    def number(self, code: str) -> int:
        return int(struct.unpack("<" + code, self.take(struct.calcsize(code)))[0])

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "replace")


def read_file(path: Path) -> Headers:
    """Header of one local file.

    Raises: BadFile for a file that isn't GGUF, is truncated or contradicts itself; Unsupported for an unknown version
    or tensor type.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            found, data_at = read_stream(file, size, path.name)
    except OSError as error:
        raise BadFile(f"{path} can't be read", cause=str(error.strerror or error)) from None
    end = data_at + sum(tensor.bytes for tensor in found.tensors)
    if end > size:
        raise BadFile(
            f"{path.name} is cut short",
            cause=f"its tensors need {end:,} bytes and it has {size:,}",
            hint="download it again",
        )
    return found


def read_stream(file: BinaryIO, size: int, name: str) -> tuple[Headers, int]:
    """The header at the start of `file`, of which `size` bytes are available, and the offset of the tensors' data.

    Raises: CutShort if the header is longer than `size`; BadFile, Unsupported.
    """
    reader = _Reader(file, min(size, MOST_HEADER_BYTES), name)
    if reader.take(4) != MAGIC:
        raise BadFile(f"{name} is not a GGUF file", cause="it doesn't start with GGUF")
    version = reader.number("I")
    if version not in VERSIONS:
        raise Unsupported(
            f"{name} is GGUF version {version}",
            cause=f"versions {VERSIONS} are known",
            hint="convert the model again, or give its config.json",
        )
    count, pairs = reader.number("Q"), reader.number("Q")
    metadata: dict[str, object] = {}
    for _ in range(_possible(pairs, 13, reader)):
        key, kind = reader.text(), reader.number("I")
        value = _value(kind, reader, 0)
        if value is not None:
            metadata[key] = value
    tensors = tuple(_tensor(reader) for _ in range(_possible(count, 24, reader)))
    stated = metadata.get("general.alignment")
    step = stated if isinstance(stated, int) and stated > 0 else ALIGNMENT
    return Headers(tensors, 1, reader.at, name, metadata), -(-reader.at // step) * step


def _possible(count: int, least: int, reader: _Reader) -> int:
    """A count of entries of at least `least` bytes each, refused if the bytes left can't hold them."""
    if count * least > reader.size - reader.at:
        raise CutShort(
            f"{reader.name} is cut short, or is not a GGUF file",
            cause=f"its header claims {count:,} entries where {reader.size - reader.at:,} bytes are left",
            hint="download it again",
        )
    return count


def _value(kind: int, reader: _Reader, depth: int) -> object:
    """A scalar or a text. Arrays are skipped (None)."""
    if kind in _SCALARS:
        found: object = struct.unpack("<" + _SCALARS[kind], reader.take(struct.calcsize(_SCALARS[kind])))[0]
        return found
    if kind == _STRING:
        return reader.text()
    if kind != _ARRAY or depth >= MOST_NESTING:
        raise BadFile(f"{reader.name} is not a GGUF file", cause=f"a value of kind {kind}")
    inner, count = reader.number("I"), reader.number("Q")
    if inner in _SCALARS:
        reader.take(count * struct.calcsize(_SCALARS[inner]))
    else:
        for _ in range(_possible(count, 8, reader)):
            _value(inner, reader, depth + 1)
    return None


def _tensor(reader: _Reader) -> Tensor:
    name, dims = reader.text(), reader.number("I")
    if dims > MOST_NESTING:
        raise BadFile(f"{reader.name} contradicts itself", cause=f"tensor {name[:80]!r} has {dims} dimensions")
    shape = tuple(reader.number("Q") for _ in range(dims))
    kind = reader.number("I")
    reader.number("Q")
    if kind not in BLOCKS:
        raise Unsupported(
            f"{reader.name} stores {name[:80]!r} as ggml type {kind}, which kvplan doesn't know",
            hint="give the model's config.json instead",
        )
    dtype, block, block_bytes = BLOCKS[kind]
    elements = prod(shape)
    if elements % block:
        raise BadFile(f"{reader.name} contradicts itself", cause=f"tensor {name[:80]!r} isn't whole blocks of {block}")
    return Tensor(name, dtype, shape, elements // block * block_bytes)
