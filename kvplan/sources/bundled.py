"""The models that come with kvplan: configs/models, one JSON file each.

A file is {"name", "aliases", "source", "config"}, where config is the Hub's config.json, or {"name", "aliases",
"source", "kvplan"} with a kvplan description. index.json lists names and aliases, so that one model is found without
opening every file; tools/remake.py writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.arch.model import BUNDLED, Origin
from kvplan.errors import BadFile, ConfigError
from kvplan.sources.document import Document
from kvplan.sources.paths import configs_dir, model_path


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundled model: its name, its aliases, and who published its description."""

    name: str
    aliases: tuple[str, ...]
    source: str

    @property
    def hub_id(self) -> str | None:
        """Its repository on the Hub, if it has one."""
        return next((alias for alias in self.aliases if "/" in alias), None)


@dataclass(frozen=True, slots=True)
class Index:
    """names: of all models, in order. aliases: from every spelling in lower case, names included, to the name."""

    names: tuple[str, ...]
    aliases: Mapping[str, str]


def model_names() -> tuple[str, ...]:
    """Names of all bundled models, in alphabetical order."""
    return index().names


def bundled_models() -> tuple[Bundled, ...]:
    """Every bundled model, in alphabetical order."""
    found = []
    for name in model_names():
        record = _record(name)
        found.append(Bundled(name, tuple(record["aliases"]), str(record["source"])))
    return tuple(found)


def name_of(text: str) -> str | None:
    """The bundled name that `text` (a name, an alias, a Hub id; any case) stands for."""
    return index().aliases.get(text.strip().lower())


def bundled_document(name: str) -> Document:
    """The description of the bundled model of that exact name.

    Raises: BadFile if the installation is damaged.
    """
    record = _record(name)
    config = record["kvplan"] if "kvplan" in record else record["config"]
    return Document(config, Origin(name, BUNDLED + record["source"]))


@cache
def index() -> Index:
    """The names and aliases in index.json.

    Raises: BadFile if the installation is damaged.
    """
    found = _load(_folder() / "index.json")
    return Index(tuple(found["names"]), found["aliases"])


def _folder() -> Path:
    return configs_dir() / "models"


def _record(name: str) -> dict[str, Any]:
    return _load(model_path(name))


def _load(path: Path) -> dict[str, Any]:
    """Read one of kvplan's own files. Tests check them, so that plain json will do."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} can't be read", cause=str(error), hint="install kvplan again") from None
    return found


def index_text() -> str:
    """What index.json should hold.

    Raises: ConfigError if two models claim the same spelling.
    """
    aliases: dict[str, str] = {}
    names = sorted(path.stem for path in _folder().glob("*.json") if path.stem != "index")
    for name in names:
        for spelling in (name, *_record(name)["aliases"]):
            if aliases.setdefault(spelling.lower(), name) != name:
                raise ConfigError(
                    f"{spelling} stands for both {aliases[spelling.lower()]} and {name}",
                    hint="take it out of the aliases of one of them, in configs/models",
                )
    return json.dumps({"names": names, "aliases": dict(sorted(aliases.items()))}, indent=1) + "\n"
