"""Values of fields without which a model class isn't built.

Source: what __init__ of the classes asserts or raises in model_executor/models, in every release that registers them: gpt2.py,
gpt_bigcode.py, gpt_j.py, dbrx.py, bailing_moe_v3.py, cohere_compass.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan.arch.model import Model
from kvplan.arch.traits import stated
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.taken import taken
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed


class Demand(NamedTuple):
    """A switch of a config, how it has to stand, and how it does where a config says nothing."""

    field: str
    value: bool
    unstated: bool


_GPT2 = tuple(
    Demand(field, value=False, unstated=False)
    for field in ("add_cross_attention", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn")
)
_LINGS = (Demand("no_kda_lora", value=True, unstated=False),)

DEMANDS: Mapping[str, tuple[Demand, ...]] = {
    "GPT2LMHeadModel": _GPT2,
    "GPT2ForSequenceClassification": _GPT2,
    "GPTBigCodeForCausalLM": _GPT2[:1],
    "GPTJForCausalLM": (
        Demand("tie_word_embeddings", value=False, unstated=False),
        Demand("rotary", value=True, unstated=True),
    ),
    "DbrxForCausalLM": (Demand("tie_word_embeddings", value=False, unstated=False),),
    "BailingMoeV3ForCausalLM": _LINGS,
    "BailingMoeV3VLForConditionalGeneration": _LINGS,
    "CohereCompassForConditionalGeneration": (Demand("tie_word_embeddings", value=True, unstated=False),),
}
"""By class."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if the config says what the class is written for.

    Raises: NotServed.
    """
    for demand in DEMANDS.get(taken(model, rules.version) or "", ()):
        own = stated(model.traits, demand.field)
        if own not in _spelled(demand):
            raise NotServed(
                f"vLLM {text(rules.version)} doesn't build {model.origin.id}",
                cause=f"its class is written for {demand.field} {str(demand.value).lower()}, and the config "
                + ("doesn't state it" if own is None else f"says {own.lower()}"),
                hint=f"{demand.field} in its config.json as published, or --engine ideal",
            )


def _spelled(demand: Demand) -> tuple[str | None, ...]:
    """What a config may say."""
    said = str(demand.value)
    return (said, None) if demand.unstated == demand.value else (said,)
