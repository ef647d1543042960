"""A token that fills up, beyond the rows of an embedding that is told of it.

vLLM's own embeddings aren't. Those of the Transformers library are, which its backend builds.

Source: vLLM 0.33 models/registry.py _TRANSFORMERS_SUPPORTED_MODELS and that of each earlier release; Transformers 5.19
modeling_*.py and configuration_*.py of the types.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.traits import PAD, stated
from kvplan.engines.vllm.tables.architectures import classes
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed

PADDED: dict[str, tuple[Version, int | None]] = {
    "ArceeForCausalLM": ((0, 32, 0), None),
    "CwmForCausalLM": ((0, 32, 0), None),
    "FlexOlmoForCausalLM": ((0, 29, 0), 100277),
    "GlmForCausalLM": ((0, 32, 0), 151329),
    "HunYuanDenseV1ForCausalLM": ((0, 29, 0), 0),
    "HunYuanMoEV1ForCausalLM": ((0, 29, 0), 0),
    "Jais2ForCausalLM": ((0, 32, 0), None),
    "MellumForCausalLM": ((0, 32, 0), None),
    "OlmoForCausalLM": ((0, 26, 0), 1),
    "Olmo2ForCausalLM": ((0, 26, 0), 1),
    "Olmo3ForCausalLM": ((0, 29, 0), 1),
    "PhiForCausalLM": ((0, 32, 0), None),
    "SeedOssForCausalLM": ((0, 32, 0), 1),
    "SmolLM3ForCausalLM": ((0, 10, 1), 128004),
    "Starcoder2ForCausalLM": ((0, 25, 0), None),
    "VaultGemmaForCausalLM": ((0, 27, 0), 0),
}
"""Classes that vLLM runs through the Transformers library and whose embedding there is told: since when, and the token of
configs that say nothing."""


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
    if name is None or release < PADDED[name][0]:
        return None
    said = stated(model.traits, PAD)
    if said is None:
        return PADDED[name][1]
    return int(said) if said.removeprefix("-").isdecimal() else None
