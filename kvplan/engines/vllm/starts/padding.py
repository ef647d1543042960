"""A token that fills up, beyond the rows of an embedding that is told of it.

vLLM's own embeddings aren't. Those of the Transformers library are, which its backend builds.

Source: vLLM 0.33 models/registry.py _TRANSFORMERS_SUPPORTED_MODELS and that of each earlier release; Transformers 5.19
modeling_*.py and configuration_*.py of the types.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.traits import PAD, stated
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.library import by_library
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed

PADDED: dict[str, int | None] = {
    "ArceeForCausalLM": None,
    "CwmForCausalLM": None,
    "FlexOlmoForCausalLM": 100277,
    "GlmForCausalLM": 151329,
    "HunYuanDenseV1ForCausalLM": 0,
    "HunYuanMoEV1ForCausalLM": 0,
    "Jais2ForCausalLM": None,
    "Kolibri1ForCausalLM": None,
    "MellumForCausalLM": None,
    "OlmoForCausalLM": 1,
    "Olmo2ForCausalLM": 1,
    "Olmo3ForCausalLM": 1,
    "PhiForCausalLM": None,
    "SeedOssForCausalLM": 1,
    "SmolLM3ForCausalLM": 128004,
    "Starcoder2ForCausalLM": None,
    "VaultGemmaForCausalLM": 0,
}
"""Classes whose embedding in the Transformers library is told, and the token of configs that say nothing."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if the embedding has a row for the token, or isn't told of it.

    Raises: NotServed.
    """
    token = _token(model, rules.version)
    if token is None or model.vocab_size is None or -model.vocab_size <= token < model.vocab_size:
        return
    raise NotServed(
        f"vLLM {text(rules.version)} doesn't build {model.origin.id}",
        cause=f"Padding_idx must be within num_embeddings: pad_token_id is {token}, and vocab_size {model.vocab_size}",
        hint='"pad_token_id": null in its config.json, or a token of its vocabulary; or --engine ideal',
    )


def _token(model: Model, release: Version) -> int | None:
    """The token that the embedding is told of, where it is known."""
    name = next((name for name in classes(model) if name in PADDED), None)
    if name is None or not by_library(model, release):
        return None
    said = stated(model.traits, PAD)
    if said is None:
        return PADDED[name]
    return int(said) if said.removeprefix("-").isdecimal() else None
