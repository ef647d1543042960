"""Which model classes a release of vLLM serves: those it registers, and those that its Transformers backend runs.

A config names classes. vLLM takes the first that its registry has. When it has none, it looks for the first in the
installed Transformers library and runs that, if its layers ask for attention through the library's interface and its
decoder takes positions. What neither can do is refused before anything is loaded. Which class a config means that names
none is in starts/nameless.py; it is judged alike.

Source: vLLM 0.33 models/registry.py inspect_model_cls, models/transformers/base.py and legacy.py.
"""

from __future__ import annotations

from kvplan.arch.layers import Attention
from kvplan.arch.model import Model
from kvplan.arch.traits import BOTH_WAYS, DRAFTS_ALONE, UNKNOWN_TYPE, UNTYPED
from kvplan.engines.vllm.starts import nameless
from kvplan.engines.vllm.tables.architectures import draft_longest, own_names, stand_ins
from kvplan.engines.vllm.tables.registered import CLASSES, DRAFTS
from kvplan.engines.vllm.tables.releases import RELEASES
from kvplan.engines.vllm.tables.spans import first, holds, last
from kvplan.engines.vllm.tables.unregistered import CROSSES, PLUGIN, REFUSED, RUNS, RUNS_IN
from kvplan.engines.vllm.tables.versions import NEWEST, Version, parse, text
from kvplan.errors import NotServed, Unsupported

NO_DRAFT_MODELS: tuple[Version, Version] = ((0, 10, 0), (0, 15, 0))
"""Releases, the last excluded, that draft by heads and n-grams alone. Source: config.py of 0.10.0, config/speculative.py of 0.11 to 0.14."""

BACKEND_SINCE: Version = (0, 7, 2)
"""The first release with a Transformers backend."""


def check(model: Model, version: Version, *, verified: bool = True) -> None:
    """Nothing, if the release serves the model, or may.

    verified: whether its registry was read; what a later one serves is not known.

    Raises: Unsupported, with a release that does.
    """
    names = nameless.classes_meant(model)
    if BOTH_WAYS in model.traits:
        raise Unsupported(
            f"vLLM keeps no cache for {model.origin.id}",
            cause="by its config every token sees every other (is_causal: false, or use_bidirectional_attention: true)",
            hint="--engine ideal",
        )
    _check_drafts(model, version, verified=verified)
    if UNTYPED in model.traits and not model.origin.bundled:
        raise NotServed(
            f"vLLM can't read the config of {model.origin.id}",
            cause="it states no model_type, by which the Transformers library finds the class of a config",
            hint='"model_type" as published in its config.json, or --engine ideal',
        )
    unread = UNKNOWN_TYPE in model.traits and not model.origin.bundled
    if unread and not any(name in CLASSES for name in names):
        raise Unsupported(
            f"vLLM can't read the config of {model.origin.id}",
            cause="the Transformers library has no class for its model_type, and no auto_map names code that does",
            hint="serve the checkpoint with its own code (auto_map), or --engine ideal",
        )
    if verified:
        nameless.check(model, version)
    if not names or any(_registered(name, version) for name in names):
        crossed = next((name for name in names if name in CROSSES), None)
        if crossed is not None:
            raise Unsupported(
                f"kvplan has no rules for what vLLM {text(version)} keeps of {crossed}'s encoder", hint="--engine ideal"
            )
        return
    _check_named(names)
    if doubt(model, version) is None and verified:
        unknown = _unknown(names[0], version)
        raise unknown if own_names(model) else nameless.by_type(unknown, model, version)


def _check_drafts(model: Model, version: Version, *, verified: bool) -> None:
    """That a model isn't one that only drafts, and that the release has the class of the one that drafts for it.

    Raises: Unsupported.
    """
    alone = next((name for name in model.architectures if name in DRAFTS), None)
    if alone is not None:
        raise Unsupported(
            f"vLLM doesn't serve {alone} alone",
            cause="the class drafts for another model",
            hint=f"name the model it drafts for, and --draft {model.origin.id}; or --engine ideal",
        )
    asked = model.drafter is not None and DRAFTS_ALONE in model.drafter.traits
    if (asked or draft_longest(model) is not None) and NO_DRAFT_MODELS[0] <= version < NO_DRAFT_MODELS[1]:
        raise NotServed(
            f"vLLM {text(version)} lets no other model draft",
            cause="Speculative decoding with draft model is not supported yet",
            hint=f"--engine vllm@{text(NO_DRAFT_MODELS[1])} or later, or a draft by a head (EAGLE)",
        )
    names = model.drafter.architectures if model.drafter is not None else ()
    if verified and names and not any(_registered(name, version) or name in RUNS for name in names):
        unknown = _unknown(names[0], version).problem
        raise NotServed(f"{unknown.what}, which is to draft", cause=unknown.cause, hint="another --draft, or none")


def _check_named(names: tuple[str, ...]) -> None:
    """Classes of which something is known.

    Raises: Unsupported.
    """
    for name in names:
        if name in PLUGIN:
            raise Unsupported(
                f"vLLM serves {name} through a plugin only", hint=f"see {PLUGIN[name]}, or --engine ideal"
            )
    for reason, refused in REFUSED.items():
        if names[0] in refused.split():
            raise NotServed(
                f"vLLM doesn't serve {names[0]}", cause=f"vLLM doesn't register it, and {reason}", hint="--engine ideal"
            )


def doubt(model: Model, version: Version) -> str | None:
    """What to say of a model that the release doesn't register and its Transformers backend runs, or may run.

    None where there is nothing to say, or no hope: before 0.33 the backend is only taken to run plain attention.
    """
    names = nameless.classes_meant(model)
    if not names or any(_registered(name, version) for name in names) or version < BACKEND_SINCE:
        return None
    if names[0] not in RUNS:
        return None
    if version == RUNS_IN:
        return f"vLLM {text(version)} has no {names[0]} of its own and runs it through its Transformers backend"
    if all(isinstance(cache, Attention) and cache.indexer is None for cache, _ in model.distinct):
        return (
            f"vLLM {text(version)} has no {names[0]} of its own: it starts only if the Transformers library installed with "
            "it has one, unverified"
        )
    return None


def _registered(name: str, version: Version) -> bool:
    """Whether a release registers a class, or the one that an embedder or a classifier is made of."""
    if holds(CLASSES.get(name, ""), version) or holds(CLASSES.get(name, ""), _next(version)):
        return True
    return any(holds(CLASSES[made], version) for made in stand_ins(name))


def _next(version: Version) -> Version:
    """The release that a build between two releases is on its way to; a release itself."""
    return next((each for each in map(parse, RELEASES) if each >= version), version)


def _unknown(name: str, version: Version) -> NotServed:
    """A class that the release has no way to load."""
    spans = CLASSES.get(name, "")
    what = f"vLLM {text(version)} doesn't serve {name}"
    if not spans:
        return NotServed(
            what,
            cause="no release registers it, nor has the Transformers library a class of that name that its backend takes",
            hint="--engine ideal; a checkpoint's own code loads only if it is written for that backend",
        )
    if version < first(spans):
        since = text(first(spans))
        return NotServed(what, cause=f"vLLM does since {since}", hint=f"--engine vllm@{since}")
    until = text(last(spans) or NEWEST)
    return NotServed(what, cause=f"vLLM did until {until}", hint=f"--engine vllm@{until}")
