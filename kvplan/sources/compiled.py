"""Bundled models in compiled form: configs/models-compiled.jsonl, because reading a config takes longer than answering.

tools/remake.py writes the file (`python -m kvplan.sources.compiled` writes only this one) after a change to
configs/models or to the code that reads configs. Until then kvplan reads the configs themselves, so that it never
answers by an old config: a model is taken from this file only if its config and the code that reads configs are, byte
for byte, those that it was made from. A test fails until all models are up to date.

The first line is {"made_from": digest of the code, "classes": [[name, field, ...], ...], "models": {name: [start,
length]}}. Every other line is one model as [digest of its config, object, ...], the last of which is the model. An
object is [class, value, ...], [-1, value, ...] for a tuple or [-2, value] for any other value; a value is itself, or
[number] for an object before it. Equal objects of a model are written once and shared, as reading shares them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.arch import formats, layers, model, quantized, storage, weights
from kvplan.arch.model import Model
from kvplan.sources.digests import digest, digest_of_all
from kvplan.sources.paths import configs_dir, model_path

TUPLE, OTHER = -1, -2

READING = ("arch", "errors.py", "families", "sources", "text.py", "units.py")
"""All code that reads configs: sources and what it may import for models (tests/test_architecture.py)."""


class Index(NamedTuple):
    """classes: by number. places: start and length of each model's line. start: of the first of them."""

    classes: tuple[type, ...]
    places: dict[str, list[int]]
    start: int


def compiled(name: str) -> Model | None:
    """The bundled model of that exact name; None if it has to be read from its config."""
    index = _index()
    if index is None or name not in index.places:
        return None
    start, length = index.places[name]
    with _path().open("rb") as file:
        file.seek(index.start + start)
        return _made(name, file.read(length), index.classes)


def at_once(name: str, revision: str | None) -> Model | None:
    """The bundled model of that exact name; None if the name is a path too, or isn't a bundled one."""
    if revision is not None or os.path.lexists(name):
        return None
    return compiled(name)


def compiled_models() -> dict[str, Model]:
    """Bundled models by name, except those that have to be read from their configs."""
    index = _index()
    if index is None:
        return {}
    data = _path().read_bytes()[index.start :]
    models = {name: _made(name, data[at : at + length], index.classes) for name, (at, length) in index.places.items()}
    return {name: model for name, model in models.items() if model is not None}


def _made(name: str, line: bytes, classes: tuple[type, ...]) -> Model | None:
    """The model of a line; None if its config has changed."""
    made_from, *entries = json.loads(line)
    if made_from != digest(f"{_models()}{os.sep}{name}.json"):
        return None
    objects: list[Any] = []
    for number, *values in entries:
        if number == OTHER:
            objects.append(values[0])
            continue
        held = [objects[value[0]] if type(value) is list else value for value in values]
        objects.append(tuple(held) if number == TUPLE else classes[number](*held))
    found: Model = objects[-1]
    return found


@cache
def _models() -> str:
    return str(configs_dir() / "models")


@cache
def _index() -> Index | None:
    """The first line; None if there is none, or the code has changed."""
    try:
        with _path().open("rb") as file:
            first = file.readline()
        head = json.loads(first)
        if head["made_from"] != code_digest(_PACKAGE):
            return None
        classes = tuple(_class_of(name, names) for name, *names in head["classes"])
    except (OSError, ValueError, LookupError):
        return None
    return Index(classes, head["models"], len(first))


def code_digest(package: Path) -> str:
    """Digest of the code that reads configs, in a folder with kvplan's modules.

    Raises: OSError.
    """
    return digest_of_all(package, READING)


_PACKAGE = Path(__file__).resolve().parents[1]


def _path() -> Path:
    return configs_dir() / "models-compiled.jsonl"


def _class_of(name: str, names: list[str]) -> type:
    """The class of that name, if its fields are unchanged.

    Raises: LookupError.
    """
    for module in (formats, layers, model, quantized, storage, weights):
        found = vars(module).get(name)
        if isinstance(found, type) and is_dataclass(found) and [field.name for field in fields(found)] == names:
            return found
    raise LookupError(f"{name} has other fields now")


class _Writer:
    """Writes one model's objects in an order in which they can be made again."""

    def __init__(self, classes: list[list[str]]) -> None:
        self.classes = classes
        self.objects: list[str] = []
        self.numbers: dict[str, int] = {}

    def value(self, held: object) -> object:
        """The JSON for a value: itself, or a reference to its object."""
        if held is None or isinstance(held, bool | int | float | str):
            return held
        if isinstance(held, tuple):
            return [self._number([TUPLE, *map(self.value, held)])]
        if is_dataclass(held) and not isinstance(held, type):
            names = [field.name for field in fields(held)]
            row = [type(held).__name__, *names]
            if row not in self.classes:
                self.classes.append(row)
            return [self._number([self.classes.index(row), *(self.value(getattr(held, name)) for name in names)])]
        return [self._number([OTHER, held])]

    def _number(self, entry: list[object]) -> int:
        text = json.dumps(entry, separators=(",", ":"))
        if text not in self.numbers:
            self.numbers[text] = len(self.objects)
            self.objects.append(text)
        return self.numbers[text]


def _lines(classes: list[list[str]]) -> Iterator[tuple[str, str]]:
    from kvplan.sources.models import load_document, model_names, model_of

    for name in model_names():
        writer = _Writer(classes)
        writer.value(model_of(load_document(name, offline=True)))
        yield name, f"{json.dumps([digest(model_path(name))])[:-1]},{','.join(writer.objects)}]\n"


def text() -> str:
    """The content of models-compiled.jsonl, in plain ASCII so that characters are bytes."""
    classes: list[list[str]] = []
    lines = dict(_lines(classes))
    places: dict[str, list[int]] = {}
    start = 0
    for name, line in lines.items():
        places[name] = [start, len(line)]
        start += len(line)
    head = {"made_from": code_digest(_PACKAGE), "classes": classes, "models": places}
    return json.dumps(head) + "\n" + "".join(lines.values())


if __name__ == "__main__":
    _path().write_text(text(), encoding="ascii")
