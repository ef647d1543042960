"""Names of tensors as checkpoints write them, brought to the modules of an inventory."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.families.quantization.names import bare

Key = tuple[str, str]
"""What a module is: ("expert", "shared" or ""; the last step of its name)."""

_SUFFIXES = frozenset((
    "weight", "qweight", "qzeros", "scales", "g_idx", "weight_scale", "weight_scale_inv", "weight_scale_2", "input_scale", "scale",
    "weight_packed", "weight_shape", "weight_zero_point", "weight_global_scale", "input_global_scale", "weight_g_idx", "biases",
    "weight_scale_second", "blocks", "quant_state", "absmax", "quant_map", "nested_absmax", "nested_quant_map", "output_scale", "weight_offset",
))  # fmt: skip
_LAST = {
    "w1": "gate_proj", "w3": "up_proj", "w2": "down_proj", "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj",
    "attn_output": "o_proj", "ffn_gate": "gate_proj", "ffn_up": "up_proj", "ffn_down": "down_proj", "ffn_gate_exps": "gate_proj",
    "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj", "ffn_gate_shexp": "gate_proj", "ffn_up_shexp": "up_proj",
    "ffn_down_shexp": "down_proj", "ffn_gate_inp": "gate", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "token_embd": "embed_tokens", "output": "lm_head", "output_norm": "norm", "router": "gate", "word_embeddings": "embed_tokens",
    "wte": "embed_tokens", "embed_in": "embed_tokens", "embed_out": "lm_head", "ln_f": "norm", "final_layer_norm": "norm",
}  # fmt: skip
_JOINED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv", "attn_qkv"), ("q_proj", "k_proj", "v_proj")),
    **dict.fromkeys(("gate_up_proj", "w13", "gate_up"), ("gate_proj", "up_proj")),
}  # fmt: skip


def module_of(name: str) -> tuple[str, str]:
    """A tensor's module without layer and wrappers, and with its own last step: ("self_attn.q_proj", "…q_proj.weight")."""
    inner = re.sub(r"^(?:.*?\.)?(?:layers|h|blocks|blk|layer)\.\d+\.", "", bare(name))
    inner = re.sub(r"experts\.\d+\.", "experts.0.", inner)
    inner = re.sub(r"(?<=proj)_(?=(?:blocks|scales|bias)$)", ".", inner)  # of experts in one tensor (gpt-oss)
    module = inner
    while True:
        outer, dot, last = module.rpartition(".")
        if not (dot and (last in _SUFFIXES or last.startswith("bitsandbytes__"))):
            return module, inner
        module = outer


def key_of(module: str) -> Key:
    """What a module is: `model.layers.3.mlp.experts.0.w1` is ("expert", "gate_proj")."""
    name = bare(module)
    last = name.rpartition(".")[2]
    if last == "bias":
        kind, module = key_of(name.removesuffix(".bias"))
        return kind, f"{module}.bias"
    shared = "shared" in name or last.endswith("_shexp")
    routed = not shared and ("experts" in name or last.endswith("_exps"))
    return "shared" if shared else "expert" if routed else "", _LAST.get(last, last)


def keys_of(name: str) -> tuple[Key, ...]:
    """The modules that a tensor belongs to: several when projections are joined."""
    kind, last = key_of(module_of(name)[0])
    module, bias, _ = last.partition(".bias")
    return tuple((kind, part + bias) for part in _JOINED.get(module, (module,)))
