"""Activations that a model class is written for, and without which it isn't built.

Experts have no such check: only models with dense or shared feed-forward parts are judged.

Source: models/llama.py LlamaMLP, gemma2.py Gemma2MLP and their like (tables/activations.py).
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.traits import ACTIVATIONS, stated
from kvplan.engines.vllm.tables.language import activations
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed

DENSE = ("mlp", "shared_experts")
"""Components that check."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if the class takes the activation that the config states.

    Raises: NotServed.
    """
    taken = activations(model, rules.version)
    if not taken or not _dense(model):
        return
    for field in ACTIVATIONS:
        allowed = [said.removeprefix(f"{field}=") for said in taken if said.startswith(f"{field}=")]
        own = stated(model.traits, field)
        if allowed and own not in (None, *allowed):
            raise NotServed(
                f"vLLM {text(rules.version)} doesn't build {model.origin.id}",
                cause=f"Unsupported activation: {own}. Only {' or '.join(allowed)} is supported for now",
                hint=f"{field} in its config.json as published, or --engine ideal",
            )


def _dense(model: Model) -> bool:
    """Whether any layer is known to have a feed-forward part that all tokens pass."""
    layers = () if model.weights is None else model.weights.distinct
    return any(weight.component in DENSE for layer, _ in layers for weight in layer)
