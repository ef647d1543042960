"""Translates drafts whose config a training tool wrapped in an object into a transformers config.

Source: vLLM 0.33 transformers_utils/configs/speculators/algos.py, base.py, and transformers_utils/configs/eagle.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.errors import BadField, MissingField, Unsupported

_BODIES = {
    "eagle3": {"llama": "Eagle3LlamaForCausalLM", "qwen3": "Eagle3Qwen3ForCausalLM"},
    "peagle": {"llama": "PeagleLlamaForCausalLM", "qwen3": "PeagleQwen3ForCausalLM"},
}
"""The class that vLLM builds, by algorithm and type of the layers."""
_ALONE = {"dflash": "DFlashDraftModel", "dflash2": "DFlash2DraftModel", "dspark": "Qwen3DSparkModel"}
"""The class that vLLM builds, by algorithm alone."""

_CARRIED = (
    "draft_vocab_size", "target_hidden_size", "norm_before_residual", "norm_before_fc", "fc_norm", "norm_output",
    "eagle_aux_hidden_state_layer_ids", "markov_rank", "block_size",
)  # fmt: skip
"""Fields outside the layers' object that shape the draft."""
_OUTER = frozenset(("model", "model_type", "architectures", "method", "truncated_vocab_size"))
"""Fields of EAGLE's wrapper itself. All others override the wrapped model's."""


def unwrapped(config: Mapping[str, object]) -> Mapping[str, object]:
    """The same draft as a transformers config; the config itself if nothing is wrapped.

    Raises: BadField, MissingField; Unsupported for an algorithm that no release of vLLM knows.
    """
    if "speculators_model_type" in config or "speculators_config" in config:
        return _speculator(config)
    if config.get("model_type") == "eagle" and "model" in config:
        inner = _object(config, "model")
        return {**inner, **{name: value for name, value in config.items() if name not in _OUTER}}
    return config


def _speculator(config: Mapping[str, object]) -> dict[str, object]:
    inner = _object(config, "transformer_layer_config")
    carried = {name: config[name] for name in _CARRIED if config.get(name) is not None}
    found = {**inner, **carried, "architectures": [_class(config, inner)]}
    listed = config.get("aux_hidden_state_layer_ids")
    if isinstance(listed, list):
        found["dflash_config"] = {"target_layer_ids": [layer - 1 for layer in listed if isinstance(layer, int)]}
    return found


def _class(config: Mapping[str, object], inner: Mapping[str, object]) -> str:
    """The class that vLLM builds for an algorithm and the type of its layers.

    Raises: Unsupported.
    """
    algorithm, body = config.get("speculators_model_type"), inner.get("model_type", "llama")
    bodies = _BODIES.get(str(algorithm))
    found = _ALONE.get(str(algorithm)) if bodies is None else bodies.get(str(body))
    if found is None:
        raise Unsupported(
            f"speculators_model_type {algorithm!r} with layers of {body!r} is not known",
            cause=f"vLLM drafts by {', '.join((*_BODIES, *_ALONE))}, the first two with layers of llama or qwen3",
            hint="describe the draft in a kvplan YAML, layer group by layer group",
        )
    return found


def _object(config: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = config.get(name)
    if found is None:
        raise MissingField(name, cause="a wrapped draft keeps its layers' fields there")
    if not isinstance(found, Mapping):
        raise BadField(name, found, "an object")
    return found
