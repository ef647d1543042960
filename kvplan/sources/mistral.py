"""Translates Mistral's own params.json into a transformers config.

Source of the spellings: github.com/mistralai/mistral-inference src/mistral_inference/args.py, and vLLM 0.33
transformers_utils/configs/mistral.py for the newer models.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.arch.layers import MOST_LAYERS
from kvplan.errors import BadField, Unsupported

_NAMES = {
    "dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads", "head_dim": "head_dim", "hidden_dim": "intermediate_size",
    "vocab_size": "vocab_size", "tied_embeddings": "tie_word_embeddings", "dtype": "torch_dtype",
    "max_seq_len": "max_position_embeddings", "max_position_embeddings": "max_position_embeddings",
    "q_lora_rank": "q_lora_rank", "kv_lora_rank": "kv_lora_rank", "qk_nope_head_dim": "qk_nope_head_dim",
    "qk_rope_head_dim": "qk_rope_head_dim", "v_head_dim": "v_head_dim", "rope_theta": "rope_theta",
}  # fmt: skip
_MOE = {
    "num_experts": "num_local_experts", "num_experts_per_tok": "num_experts_per_tok",
}  # fmt: skip
_MLA_MOE = {
    "num_experts": "n_routed_experts", "num_experts_per_tok": "num_experts_per_tok",
    "first_k_dense_replace": "first_k_dense_replace", "route_every_n": "moe_layer_freq",
    "expert_hidden_dim": "moe_intermediate_size", "num_shared_experts": "n_shared_experts",
    "num_expert_groups": "n_group", "num_expert_groups_per_tok": "topk_group",
}  # fmt: skip
_SIZE_NOTHING = frozenset({
    "norm_eps", "activation", "use_biases", "causal", "rope_scaling", "ragged_attention", "model_type", "model_parallel",
    "routed_scale", "renorm_strategy", "use_load_balancing_bias", "llama_4_scaling", "multiple_of", "max_batch_size",
    "expert_parallel", "expert_model_parallel", "router_softmax_first", "adapt_attn", "lora",
})  # fmt: skip
_SEPARATE = frozenset({
    "moe", "sliding_window", "_sliding_window", "vision_encoder", "multimodal", "quantization", "yarn",
})  # fmt: skip


_TYPES = frozenset(("transformer", "mistral", "mixtral"))
"""Values of model_type in params.json. Any other value belongs to a transformers config."""


def is_params(config: Mapping[str, object]) -> bool:
    """Whether this is a params.json and not a transformers config. DistilBERT's config has a `dim` too."""
    stated = config.get("model_type")
    its_own = stated is None or (isinstance(stated, str) and stated in _TYPES)
    return its_own and "n_layers" in config and "dim" in config and not config.keys() & {"hidden_size", "architectures"}


def transformers_config(params: Mapping[str, object]) -> dict[str, object]:
    """The same model as a transformers config.

    Raises: Unsupported for a key that is neither translated nor known to have no size; BadField.
    """
    unknown = sorted(set(params) - set(_NAMES) - _SIZE_NOTHING - _SEPARATE)
    if unknown:
        raise Unsupported(
            f"{unknown[0]} in params.json is not known",
            cause="it may change what the model caches",
            hint="give the model's config.json if there is one, or describe it in a kvplan YAML",
        )
    latent = params.get("kv_lora_rank") is not None
    config: dict[str, object] = {"model_type": "deepseek_v3" if latent else "mistral", "sliding_window": None}
    if latent:
        del config["sliding_window"]
    config |= {_NAMES[key]: value for key, value in params.items() if key in _NAMES}
    config |= _experts(params, latent=latent) | _window(params)
    config["architectures"] = [_class(params)]
    if params.get("vision_encoder") or params.get("multimodal"):
        config["vision_config"] = params.get("vision_encoder") or params.get("multimodal")
    if isinstance(params.get("yarn"), Mapping):
        config["rope_scaling"] = {"rope_type": "yarn", **_yarn(params)}
    return config | _quantisation(params)


def _class(params: Mapping[str, object]) -> str:
    """The class that vLLM uses. Source: vLLM 0.33 transformers_utils/configs/mistral.py adapt_config_dict."""
    moe, parts = params.get("moe"), params.get("multimodal")
    if isinstance(parts, Mapping) and parts.get("whisper_model_args"):
        return "VoxtralForConditionalGeneration"
    if params.get("vision_encoder") or parts:
        return "PixtralForConditionalGeneration"
    if not isinstance(moe, Mapping) or not moe:
        return "MistralForCausalLM"
    return "MistralLarge3ForCausalLM" if moe.get("num_shared_experts") else "MixtralForCausalLM"


def _experts(params: Mapping[str, object], *, latent: bool) -> dict[str, object]:
    moe = params.get("moe")
    if moe is None:
        return {}
    if not isinstance(moe, Mapping):
        raise BadField("moe", moe, "an object")
    names = _MLA_MOE if latent else _MOE
    unknown = sorted(set(moe) - set(names) - _SIZE_NOTHING)
    if unknown:
        raise Unsupported(f"moe.{unknown[0]} in params.json is not known", hint="describe the model in a kvplan YAML")
    found: dict[str, object] = {names[key]: value for key, value in moe.items() if key in names}
    return found if latent else found | {"model_type": "mixtral"}


def _window(params: Mapping[str, object]) -> dict[str, object]:
    """A number is the window of every layer. A list is a repeated pattern, with null for full attention."""
    window = params.get("sliding_window") or params.get("_sliding_window")
    if window is None or isinstance(window, int):
        return {} if window is None else {"sliding_window": window}
    layers = params.get("n_layers")
    if not isinstance(window, list) or not isinstance(layers, int) or not 0 < layers <= MOST_LAYERS:
        raise BadField("sliding_window", window, "a number or a list of numbers and nulls")
    sizes = {size for size in window if size is not None}
    if len(sizes) != 1 or layers % len(window):
        raise BadField("sliding_window", window, f"a pattern of one window size that divides {layers} layers")
    kinds = ["full_attention" if size is None else "sliding_attention" for size in window]
    return {"sliding_window": sizes.pop(), "layer_types": kinds * (layers // len(kinds))}


def _yarn(params: Mapping[str, object]) -> dict[str, object]:
    yarn = params["yarn"]
    names = {"factor", "original_max_position_embeddings"}
    return {key: value for key, value in yarn.items() if key in names} if isinstance(yarn, Mapping) else {}


def _quantisation(params: Mapping[str, object]) -> dict[str, object]:
    found = params.get("quantization")
    if not found:
        return {}
    if isinstance(found, Mapping) and found.get("qformat_weight") == "fp8_e4m3":
        return {"quantization_config": {"quant_method": "fp8"}}
    if isinstance(found, Mapping) and "quant_method" in found:
        return {"quantization_config": found}
    raise Unsupported("quantization in params.json is not known", hint="give the model's config.json")
