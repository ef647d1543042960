"""Every bundled model, already read: configs/models-compiled.json, for commands that want all of them at once.

Reading one config takes a millisecond or two, and there are two hundred. `python -m kvplan.sources.compiled` writes the
file again after a change to configs/models or to how configs are read; a test compares it with what reading gives.

The file is {"classes": [[name, field, ...], ...], "objects": [...], "models": {name: number}}. An object is
[class, value, ...], [-1, value, ...] for a tuple or [-2, value] for any other value; a value is itself, or [number] for an
object before it. Equal objects are written once and shared, as reading shares them.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.arch import formats, layers, model, weights
from kvplan.arch.model import Model
from kvplan.errors import BadFile
from kvplan.sources.paths import configs_dir

TUPLE, OTHER = -1, -2


@cache
def models() -> dict[str, Model]:
    """All bundled models by name.

    Raises: BadFile if the installation is damaged, or the file was made by another version.
    """
    path = _path()
    try:
        found = json.loads(path.read_bytes())
        classes = [_class_of(name, names) for name, *names in found["classes"]]
    except (OSError, ValueError, LookupError) as error:
        raise BadFile(f"{path} can't be read", cause=str(error), hint="install kvplan again") from None
    objects: list[Any] = []
    for number, *values in found["objects"]:
        if number == OTHER:
            objects.append(values[0])
            continue
        held = [objects[value[0]] if type(value) is list else value for value in values]
        objects.append(tuple(held) if number == TUPLE else classes[number](*held))
    return {name: objects[number] for name, number in found["models"].items()}


def _path() -> Path:
    return configs_dir() / "models-compiled.json"


def _class_of(name: str, names: list[str]) -> type:
    """The class of that name, if its fields are still the same.

    Raises: LookupError.
    """
    for module in (formats, layers, model, weights):
        found = vars(module).get(name)
        if isinstance(found, type) and is_dataclass(found) and [field.name for field in fields(found)] == names:
            return found
    raise LookupError(f"{name} has other fields now")


class _Writer:
    """Objects in the order in which they can be made again."""

    def __init__(self) -> None:
        self.classes: list[list[str]] = []
        self.objects: list[str] = []
        self.numbers: dict[str, int] = {}

    def value(self, held: object) -> object:
        """What stands for a value: itself, or where its object is."""
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
        text = json.dumps(entry)
        if text not in self.numbers:
            self.numbers[text] = len(self.objects)
            self.objects.append(text)
        return self.numbers[text]


def text() -> str:
    """What models-compiled.json should hold."""
    from kvplan.sources.models import load_model, model_names

    writer = _Writer()
    numbers = {name: writer.value(load_model(name, offline=True)) for name in model_names()}
    where = {name: number[0] for name, number in numbers.items() if isinstance(number, list)}
    objects = ",\n".join(writer.objects)
    return f'{{"classes": {json.dumps(writer.classes)},\n"objects": [\n{objects}\n],\n"models": {json.dumps(where)}}}\n'


if __name__ == "__main__":
    _path().write_text(text(), encoding="utf-8")
