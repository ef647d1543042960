"""Models by name, for tests of weights."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from kvplan.arch.model import Model, Origin
from kvplan.families import read
from kvplan.sources.bundled import bundled_document
from kvplan.sources.models import load_model

DATA = Path(__file__).parents[1] / "data"


def described(config: dict, name: str = "test") -> Model:
    """The model that a config describes."""
    return read(config, Origin(name, name))


@cache
def bundled(name: str) -> Model:
    """One of the models that kvplan brings along."""
    document = bundled_document(name)
    if "kvplan" in document.config:
        return load_model(name, offline=True)
    return read(document.config, document.origin, document.companions)


def lines(name: str) -> list[dict]:
    """A fixture of facts."""
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]
