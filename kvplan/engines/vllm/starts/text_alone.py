"""Models that see or hear, started for text alone: --language-model-only, or --limit-mm-per-prompt with nothing but zeros.

Source: vLLM 0.33 config/model.py _supports_multimodal_inputs, config/multimodal.py get_limit_per_prompt, models/interfaces.py
_mark_tower_model.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.extras import without_towers
from kvplan.arch.model import Model
from kvplan.engines.base import Setup
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.flags import FLAGS
from kvplan.engines.vllm.tables.library import by_library
from kvplan.engines.vllm.tables.media import MEDIA, SKIPS
from kvplan.engines.vllm.tables.spans import first, holds, last
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import Unsupported, WontStart

FLAG = "language-model-only"


def served(setup: Setup, release: Version) -> Setup:
    """The setup with the model that is built: without towers where nothing but text is served.

    Limits that leave a medium in, or that a class builds its towers in spite of, leave the model whole: what is counted
    then is more than what is there.

    Raises: WontStart for a release without the flag; Unsupported where a class isn't known to leave its towers out.
    """
    model, options = setup.model, setup.options
    if options.language_model_only:
        _check(model, release)
    elif not options.no_media or not _limited(model, options.no_media, release):
        return setup
    return replace(setup, model=without_towers(model))


def _check(model: Model, release: Version) -> None:
    if not holds(FLAGS[FLAG], release):
        since = text(first(FLAGS[FLAG]))
        raise WontStart(
            f"vLLM {text(release)} has no --{FLAG}",
            cause=f"it came with {since}",
            hint=f"--engine vllm@{since}, or leave it out: towers are counted then",
        )
    if without_towers(model) is not model and not _leaves_out(model, release):
        raise Unsupported(
            f"kvplan doesn't know whether vLLM {text(release)} leaves the towers of {model.origin.id} out",
            cause=_unknown(model, release),
            hint=f"leave --{FLAG} out: towers are counted then",
        )


def _unknown(model: Model, release: Version) -> str:
    """Why it isn't known: a class of vLLM's own is gone, or never left them out."""
    name = next(iter(classes(model)), "its class")
    ended = last(SKIPS[name]) if name in SKIPS else None
    if ended is None or release < ended or not by_library(model, release):
        return f"{' or '.join(classes(model)) or name} isn't known to build a language model alone"
    return f"vLLM's own {name} did until {text(ended)}; {text(release)} runs it through its Transformers backend"


def _leaves_out(model: Model, release: Version) -> bool:
    return any(holds(SKIPS.get(name, ""), release) for name in classes(model))


def _limited(model: Model, none_of: tuple[str, ...], release: Version) -> bool:
    """Whether requests may hold none of what the class reads beside text, and no towers are built for it."""
    read = {
        medium
        for name in classes(model)
        for medium, releases in MEDIA.get(name, {}).items()
        if holds(releases, release)
    }
    return bool(read) and read <= set(none_of) and _leaves_out(model, release)
