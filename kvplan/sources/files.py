"""Descriptions from a file, a folder or standard input."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from kvplan.arch.model import Origin
from kvplan.errors import BadFile, Unsupported, UsageError
from kvplan.families.quantization import says_quantization
from kvplan.sources.document import COMPANIONS, Document
from kvplan.sources.strict import (
    MAX_JSON_BYTES,
    MAX_YAML_BYTES,
    Lines,
    decoded,
    parse_json_object,
    parse_yaml_mapping,
)
from kvplan.units import MIB

CONFIG_NAMES = ("config.json", "params.json")
"""Possible names of the description in a model's folder, in order of preference; params.json is Mistral's."""


def read_path(path: Path, name: str) -> Document:
    """The description in a file, or in a folder's config.json.

    name: the path as typed, for messages and as the model's id.

    Raises: BadFile, Unsupported.
    """
    return _folder(path, name) if path.is_dir() else _file(path, name)


def read_stdin() -> Document:
    """The description on standard input: JSON if it starts with `{`, else YAML.

    Raises: UsageError if standard input is a terminal; BadFile.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing is piped into standard input", hint="kvplan size - < config.json")
    raw = _at_most(sys.stdin.buffer, MAX_JSON_BYTES, "standard input")
    return text_document(raw, "standard input", Origin("stdin", "standard input"))


def text_document(raw: bytes, name: str, origin: Origin) -> Document:
    """The description in bytes of unknown format.

    Raises: BadFile.
    """
    if raw.startswith(b"GGUF"):
        raise gguf_refused(name)
    text = decoded(raw, name)
    if text.lstrip().startswith(("{", "[")):
        return Document(parse_json_object(text, name), origin)
    config, lines = _yaml(text, name)
    return Document(config, origin, lines=lines)


def gguf_refused(name: str) -> Unsupported:
    """The error for GGUF files, which kvplan can't read as descriptions yet."""
    return Unsupported(
        f"{name} is a GGUF file, which kvplan can't read yet",
        cause="GGUF keeps the description in a format of its own, together with the weights",
        hint="give the config.json, or the Hub id, of the model that it was converted from",
    )


def _folder(path: Path, name: str) -> Document:
    for config_name in CONFIG_NAMES:
        found = path / config_name
        if _is_file(found, name):
            return _with_companions(_file(found, f"{name.rstrip('/')}/{config_name}", model=name), path)
    names = _listing(path, name)
    ggufs = [entry for entry in names if entry.lower().endswith(".gguf")]
    if ggufs:
        raise gguf_refused(f"{name.rstrip('/')}/{ggufs[0]}")
    raise BadFile(
        f"the folder {name} has no config.json",
        cause=f"it holds {listed(names)}" if names else "it is empty",
        hint="give the folder that holds the model's config.json, or a kvplan YAML",
    )


def _is_file(path: Path, folder: str) -> bool:
    """Whether the folder has the file.

    Raises: BadFile for a folder that can't be read.
    """
    try:
        return path.is_file()
    except OSError as error:
        raise BadFile(f"the folder {folder} can't be read", cause=error.strerror) from None


def listed(names: Iterable[str], most: int = 8) -> str:
    """The first names, and the number of the others."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def _listing(path: Path, name: str) -> list[str]:
    try:
        return sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise BadFile(f"the folder {name} can't be read", cause=error.strerror) from None


def _file(path: Path, name: str, *, model: str | None = None) -> Document:
    if path.suffix.lower() == ".gguf":
        raise gguf_refused(name)
    if path.suffix.lower() in WEIGHTS:
        raise BadFile(f"{name} contains weights, not a description", hint="give the config.json beside it")
    origin = Origin(model or name, name)
    raw = read_bytes(path, name, MAX_JSON_BYTES)
    if path.suffix.lower() == ".json":
        document = Document(parse_json_object(decoded(raw, name), name), origin)
    elif path.suffix.lower() in {".yaml", ".yml"}:
        config, lines = _yaml(decoded(raw, name), name)
        document = Document(config, origin, lines=lines)
    else:
        document = text_document(raw, name, origin)
    if path.name == "config.json" and model is None:
        return _with_companions(document, path.parent)
    return document


WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".npz"})


def _yaml(text: str, name: str) -> tuple[dict[str, object], Lines]:
    if len(text) > MAX_YAML_BYTES:
        raise _too_large(name, len(text), MAX_YAML_BYTES)
    config, lines = parse_yaml_mapping(text, name)
    if "kvplan" not in config:
        raise BadFile(
            f"{name} is not a kvplan description",
            cause="the line `kvplan: 1` is missing",
            hint="start a kvplan description with `kvplan: 1`; give a model's config.json as JSON, not as YAML",
        )
    return config, lines


def _with_companions(document: Document, folder: Path) -> Document:
    if says_quantization(document.config) or "kvplan" in document.config:
        return document
    found: dict[str, Mapping[str, object]] = {}
    for name in COMPANIONS:
        path = folder / name
        if _is_file(path, str(folder)):
            found[name] = parse_json_object(decoded(read_bytes(path, str(path), MAX_JSON_BYTES), str(path)), str(path))
    return Document(document.config, document.origin, found, document.lines, document.notes)


def read_bytes(path: Path, name: str, most: int) -> bytes:
    """A file's bytes, if it isn't too large.

    Raises: BadFile.
    """
    try:
        with path.open("rb") as file:
            status = path.stat()
            if stat.S_ISREG(status.st_mode) and status.st_size > most:
                raise _too_large(name, status.st_size, most)
            return _at_most(file, most, name)
    except OSError as error:
        raise BadFile(f"{name} can't be read", cause=error.strerror) from None


def _at_most(file: BinaryIO, most: int, name: str) -> bytes:
    raw = file.read(most + 1)
    if len(raw) > most:
        raise _too_large(name, None, most)
    return raw


def _too_large(name: str, size: int | None, most: int) -> BadFile:
    has = f"{size / MIB:.0f} MiB" if size else f"more than {most / MIB:.0f} MiB"
    return BadFile(
        f"{name} is too large to describe a model",
        cause=f"it has {has}; kvplan reads {most / MIB:.0f} MiB at most, and the largest published config has 3 MiB",
        hint="give the model's config.json",
    )
