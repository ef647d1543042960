"""What the classes that build a model's attention layers do in one release, the language model's inside a wrapper too.

A class that the release doesn't register is run by its Transformers backend, or not at all. Source: models/transformers/base.py.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.attention import DIVIDES, OWN_WINDOWS, UNIFORM, UNSET
from kvplan.engines.vllm.tables.parts import ONE_ROTATION, OPENS, WHOLE
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.taken import first_registered, has, taken
from kvplan.engines.vllm.tables.versions import Version


def own_windows(model: Model, release: Version) -> bool:
    """Whether layers that the config gives windows get them by themselves, and not all from the cache's settings."""
    found = _language(model, release)
    return found is None or has(found, OWN_WINDOWS, release)


def unsets_window(model: Model, release: Version) -> bool:
    """Whether the class takes the cache's window away from layers without one of their own."""
    return has(_language(model, release), UNSET, release)


def divides(model: Model, release: Version) -> bool:
    """Whether heads are the hidden size over their number, whatever the config says."""
    return has(_language(model, release), DIVIDES, release)


def uniform(model: Model, release: Version) -> bool:
    """Whether windows on some layers alone are refused."""
    return has(_language(model, release), UNIFORM, release)


def one_rotation(model: Model, release: Version) -> bool:
    """Whether the class takes what a config says of rotary positions for all layers alike."""
    return has(_language(model, release), ONE_ROTATION, release)


def reads_whole(model: Model, release: Version) -> bool:
    """Whether the class that is taken for the model reads its config as it stands, not the part about text in it."""
    return has(taken(model, release), WHOLE, release)


def activations(model: Model, release: Version) -> tuple[str, ...]:
    """Fields and values, `hidden_act=silu`, without which the class isn't built; none where it takes any."""
    from kvplan.engines.vllm.tables.activations import ACTIVATIONS

    wanted = ACTIVATIONS.get(_language(model, release) or "", {})
    return tuple(said for said, spans in wanted.items() if holds(spans, release))


def _language(model: Model, release: Version) -> str | None:
    """The registered class of the language model; None where the release has none."""
    found = taken(model, release)
    if not has(found, OPENS, release):
        return found
    names = model.inner_architectures
    if not names:
        from kvplan.engines.vllm.tables.nameless import PART

        names = (PART[model.family],) if model.family in PART else ()
    return first_registered(names, release)
