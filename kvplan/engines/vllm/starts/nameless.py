"""Configs that name no class (no `architectures`), which vLLM takes for the base class of their model_type.

A base class isn't registered; the first of those that it may stand for is, if any (tables/architectures.py MADE_OF). Where
none is, vLLM runs the base class itself through its Transformers backend, as an embedder with steps of its whole length, or
refuses: kvplan has no rules for that.

Source: vLLM 0.33 transformers_utils/config.py get_config, models/registry.py _normalize_arch; the former also of 0.7.3,
0.8.5, 0.11.0 and 0.11.2.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.traits import NAMELESS
from kvplan.engines.vllm.tables.architectures import (
    NAMED_BY_VLLM,
    TEXT_OF_A_WHOLE,
    classes,
    is_pooling,
    own_names,
    stand_ins,
)
from kvplan.engines.vllm.tables.registered import CLASSES
from kvplan.engines.vllm.tables.spans import first, holds
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed, Unsupported

SINCE: Version = (0, 11, 1)
"""The first release that takes a class by the type; 0.11.0 doesn't, 0.11.2 does, 0.11.1 wasn't read."""


def classes_meant(model: Model) -> tuple[str, ...]:
    """The classes that the config names; else those that vLLM registers for its type, in any release, the earliest first.

    The type's own class where none is registered; nothing where the type has no class.
    """
    meant = classes(model)
    registered = sorted((name for name in meant if name in CLASSES), key=lambda name: first(CLASSES[name]))
    return own_names(model) or tuple(registered) or meant


def check(model: Model, version: Version) -> None:
    """Nothing, if the config names a class, or the release takes one for it that can read it.

    Raises: Unsupported.
    """
    if NAMELESS not in model.traits or model.origin.bundled:
        return
    meant = classes(model)
    what = f"vLLM {text(version)} doesn't serve {model.origin.id}"
    if not meant:
        raise NotServed(
            what,
            cause="No model architectures are specified: its config names no class, and the Transformers library has none for "
            f"its model_type ({model.whole})",
            hint=_named(model),
        )
    _, since = NAMED_BY_VLLM.get(model.whole, ("", SINCE))
    if version < since:
        raise NotServed(
            what,
            cause="No model architectures are specified: its config names no class",
            hint=f"{_named(model)}; or --engine vllm@{text(since)} or later, which takes that of its model_type",
        )
    made = next((name for name in (*meant[:1], *stand_ins(meant[0])) if holds(CLASSES.get(name, ""), version)), None)
    if made in TEXT_OF_A_WHOLE and model.family != model.whole:
        raise NotServed(
            what,
            cause=f"its config names no class: vLLM takes {made} for its model_type ({model.whole}), which reads a text "
            "model's config and finds none of its fields in one of several parts",
            hint=_named(model),
        )


def caution(model: Model, version: Version) -> str | None:
    """That a model which generates text elsewhere is started as an embedder here, as its base class is; None where it isn't."""
    if NAMELESS not in model.traits or model.origin.bundled or not is_pooling(model):
        return None
    name = _generating(model)
    if name is None or not holds(CLASSES.get(name, ""), version):
        return None
    return (
        f"its config names no class: vLLM {text(version)} takes {classes(model)[0]} for its model_type and starts it for embeddings "
        f'alone; "architectures": ["{name}"] in its config.json, and it generates text'
    )


def by_type(unknown: Unsupported, model: Model, version: Version) -> Unsupported:
    """The refusal of a class that was found by the config's type."""
    problem = unknown.problem
    known = any(name in CLASSES for name in classes(model))
    cause = (
        problem.cause
        if known
        else "no release registers it: what vLLM may run is an embedder of its Transformers backend"
    )
    kind = NotServed if known else Unsupported
    return kind(
        problem.what if known else f"kvplan doesn't know whether vLLM {text(version)} runs {classes(model)[0]}",
        cause=f"{cause}; {model.origin.id} names no class, and this is its model_type's ({model.whole})",
        hint=problem.hint if known else _named(model),
    )


def _named(model: Model) -> str:
    """What to write into the config instead."""
    name = _generating(model)
    if name is None:
        return 'its class in its config.json ("architectures": [...]), or --engine ideal'
    return f'"architectures": ["{name}"] in its config.json, or --engine ideal'


def _generating(model: Model) -> str | None:
    """The class that generates text from such a config, in any release."""
    from kvplan.engines.vllm.tables.nameless import PART

    own = PART.get(model.whole)
    return own if own is not None else next((name for name in classes(model)[1:] if name in CLASSES), None)
