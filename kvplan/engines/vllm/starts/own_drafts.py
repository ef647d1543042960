"""Prediction layers of a model's own, which a release drafts with only where it knows the type, and in whole rounds.

Source: vLLM config/speculative.py (before 0.11 config.py) __post_init__ and hf_config_override of 0.8.2 to 0.33.
"""

from __future__ import annotations

from kvplan.arch.model import DESCRIBED, Model
from kvplan.engines.base import Options
from kvplan.engines.vllm.blocks.drafts import own_layers
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.own_drafts import DRAFTED
from kvplan.engines.vllm.tables.spans import first, holds
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import WontStart

JUDGED: Version = (0, 10, 0)
"""The first release that drafts by no other model, so that what isn't known to draft for itself is refused."""


def check(model: Model, options: Options, release: Version, *, verified: bool = True) -> None:
    """Nothing, if the model isn't to draft with its own layers, or the release does so with as many tokens.

    verified: whether its files were read, and not those of an earlier release.

    Raises: WontStart.
    """
    layers = 0 if model.drafter is not None or model.family == DESCRIBED else len(own_layers(model))
    tokens = options.speculative_tokens
    if not tokens or not layers or release < JUDGED:
        return
    names = (model.whole, *classes(model))
    if verified and not any(holds(DRAFTED.get(name, ""), release) for name in names):
        raise _unknown(model, release, names)
    if tokens > layers and tokens % layers:
        raise WontStart(
            f"vLLM {text(release)} doesn't draft {tokens} tokens with the prediction layers of {model.origin.id}",
            cause=f"num_speculative_tokens:{tokens} must be divisible by n_predict={layers}",
            hint=f"--speculative-tokens {tokens // layers * layers}, or fewer than {layers}",
        )


def _unknown(model: Model, release: Version, names: tuple[str, ...]) -> WontStart:
    since = min((first(DRAFTED[name]) for name in names if name in DRAFTED), default=None)
    newer = f"--engine vllm@{text(since)}; " if since is not None and since > release else ""
    return WontStart(
        f"vLLM {text(release)} doesn't draft with the prediction layers of {model.origin.id}",
        cause=f"Unsupported speculative method: 'mtp': it has none for model_type {model.whole}",
        hint=f"{newer}leave the draft tokens out, or name a model that drafts (--draft)",
    )
