"""Headers of safetensors files: eight bytes of length and a JSON object. The data behind it is never read.

A header is trusted only as far as the file bears it out: its length, every tensor's offsets, and that no two tensors
overlap. Format: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import BinaryIO, TypeGuard

from kvplan.errors import BadFile
from kvplan.sources.checkpoints.tensors import Headers, Tensor
from kvplan.sources.strict import parse_json_object
from kvplan.units import MIB

LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100 * MIB
"""The format's limit."""

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6,
    "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Bits of an element by the format's dtype names."""


def read_file(path: Path) -> Headers:
    """Header of one local file.

    Raises: BadFile for a file that isn't safetensors, is truncated or contradicts itself.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = _header(file, size, path.name)
    except OSError as error:
        raise BadFile(f"{path} can't be read", cause=str(error.strerror or error)) from None
    tensors = tensors_of(header, path.name, size - LENGTH_BYTES - len(header))
    return Headers(tensors, 1, LENGTH_BYTES + len(header), str(path))


def _header(file: BinaryIO, size: int, name: str) -> bytes:
    raw = file.read(LENGTH_BYTES)
    length = int.from_bytes(raw, "little")
    if len(raw) < LENGTH_BYTES or not 0 < length <= min(size - LENGTH_BYTES, MOST_HEADER_BYTES):
        raise BadFile(
            f"{name} is not a safetensors file, or is cut short",
            cause=f"its header claims {length:,} bytes of a file of {size:,}",
            hint="download it again",
        )
    return file.read(length)


def tensors_of(header: bytes, name: str, data_bytes: int | None) -> tuple[Tensor, ...]:
    """Tensors that a header lists. data_bytes: of the data behind it, None if unknown.

    Raises: BadFile.
    """
    try:
        text = header.decode("utf-8")
    except UnicodeDecodeError:
        raise BadFile(f"{name} is not a safetensors file", cause="its header is not text") from None
    entries = parse_json_object(text, name)
    tensors, places = [], []
    for tensor, entry in entries.items():
        if tensor != "__metadata__":
            found, place = _tensor(tensor, entry, name)
            tensors.append(found)
            places.append(place)
    _check_places(sorted(places), name, data_bytes)
    return tuple(tensors)


def _tensor(tensor: str, entry: object, name: str) -> tuple[Tensor, tuple[int, int]]:
    if not isinstance(entry, Mapping):
        raise _contradiction(name, tensor, "it isn't described by an object")
    dtype, shape, place = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _contradiction(name, tensor, f"its dtype is {dtype!r}")
    if not _numbers(shape) or not _numbers(place) or len(place) != 2:
        raise _contradiction(name, tensor, "its shape or its place isn't a list of whole numbers")
    size = -(-prod(shape) * BITS[dtype] // 8)
    if place[1] - place[0] != size:
        raise _contradiction(name, tensor, f"its shape needs {size:,} bytes and its place has {place[1] - place[0]:,}")
    return Tensor(tensor, dtype, tuple(shape), size), (place[0], place[1])


def _numbers(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)


def _check_places(places: list[tuple[int, int]], name: str, data_bytes: int | None) -> None:
    end = 0
    for start, stop in places:
        if start < end:
            raise BadFile(
                f"{name} contradicts itself", cause="two tensors share the same bytes", hint="download it again"
            )
        if start > end:
            raise BadFile(
                f"{name} contradicts itself",
                cause=f"{start - end:,} bytes belong to no tensor",
                hint="download it again",
            )
        end = stop
    if data_bytes is not None and end > data_bytes:
        raise BadFile(
            f"{name} is cut short",
            cause=f"its tensors need {end:,} bytes and it has {data_bytes:,}",
            hint="download it again",
        )
    if data_bytes is not None and end < data_bytes:
        raise BadFile(
            f"{name} contradicts itself",
            cause=f"{data_bytes - end:,} bytes after its last tensor belong to none",
            hint="download it again",
        )


def _contradiction(name: str, tensor: str, why: str) -> BadFile:
    return BadFile(f"{name} contradicts itself", cause=f"tensor {tensor[:80]!r}: {why}", hint="download it again")
