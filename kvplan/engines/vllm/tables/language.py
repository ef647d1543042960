"""What the classes that build a model's attention layers do in one release, the language model's inside a wrapper too.

A class that the release doesn't register is run by its Transformers backend, or not at all. Source: models/transformers/base.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.attention import DIVIDES, OPENS, OWN_WINDOWS, UNIFORM, UNSET
from kvplan.engines.vllm.tables.registered import CLASSES
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import Version


def own_windows(model: Model, release: Version) -> bool:
    """Whether layers that the config gives windows get them by themselves, and not all from the cache's settings."""
    found = _language(model, release)
    return not found or _any(found, OWN_WINDOWS, release)


def unsets_window(model: Model, release: Version) -> bool:
    """Whether the class takes the cache's window away from layers without one of their own."""
    return _any(_language(model, release), UNSET, release)


def divides(model: Model, release: Version) -> bool:
    """Whether heads are the hidden size over their number, whatever the config says."""
    return _any(_language(model, release), DIVIDES, release)


def uniform(model: Model, release: Version) -> bool:
    """Whether windows on some layers alone are refused."""
    return _any(_language(model, release), UNIFORM, release)


def activations(model: Model, release: Version) -> tuple[str, ...]:
    """Fields and values, `hidden_act=silu`, without which the class isn't built; none where it takes any."""
    from kvplan.engines.vllm.tables.activations import ACTIVATIONS

    names = _language(model, release)
    return tuple(said for name in names for said, spans in ACTIVATIONS.get(name, {}).items() if holds(spans, release))


def _language(model: Model, release: Version) -> tuple[str, ...]:
    """The registered class of the language model; none where the release has none."""
    found = _first_registered(classes(model), release)
    if not _any(found, OPENS, release):
        return found
    names = model.inner_architectures
    if not names:
        from kvplan.engines.vllm.tables.nameless import PART

        names = (PART[model.family],) if model.family in PART else ()
    return _first_registered(names, release)


def _first_registered(names: tuple[str, ...], release: Version) -> tuple[str, ...]:
    """The name that the release takes of several, if it has one."""
    return tuple(name for name in names if holds(CLASSES.get(name, ""), release))[:1]


def _any(names: tuple[str, ...], table: Mapping[str, str], release: Version) -> bool:
    return any(holds(table.get(name, ""), release) for name in names)
