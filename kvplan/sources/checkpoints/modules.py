"""From the names of tensors in checkpoints to the modules of an inventory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from kvplan.families.quantization.names import bare

Key = tuple[str, str]
"""Identifies a module: ("expert", "shared" or ""; the last part of its name)."""

Part = Literal["matrix", "packed", "scale", "zero", "order", "bias", "fact"]
"""What a tensor holds of a module: its elements, plain or packed; scales or zero points of groups or rows; the order of
its inputs; its bias; or a few facts about it (its shape, a scale of the whole matrix).
"""

_PARTS: Mapping[str, Part] = {
    **dict.fromkeys(("weight", "base_layer"), "matrix"),
    **dict.fromkeys(("qweight", "weight_packed", "blocks", "W_q", "codes", "q_weight", "trellis", "indices", "_weight_qdata"), "packed"),
    **dict.fromkeys((
        "scales", "scale", "weight_scale", "weight_scale_inv", "absmax", "SCB", "weight_scales", "_weight_scale", "q_scale",
        "q_scale_max", "codebooks", "centroids", "suh", "svh",
    ), "scale"),
    **dict.fromkeys(("qzeros", "biases", "zero", "weight_zero_point", "_weight_zero_point", "weight_offset"), "zero"),
    **dict.fromkeys(("g_idx", "weight_g_idx", "q_groups", "q_invperm", "q_perm", "q_group_map"), "order"),
    **dict.fromkeys((
        "weight_scale_2", "weight_scale_second", "weight_global_scale", "input_scale", "input_global_scale", "output_scale",
        "qscale_weight", "qscale_act", "weight_shape", "weight_format", "quant_state", "quant_map", "nested_absmax",
        "nested_quant_map", "nbits", "group_size", "shape", "axis",
    ), "fact"),
}  # fmt: skip
"""Last parts of tensors' names. Sources: the formats of AutoGPTQ, AutoAWQ, compressed-tensors, ModelOpt, bitsandbytes,
MLX, HQQ, AQLM, ExLlamaV2 and V3, torchao, VPTQ, gpt-oss, DeepSeek and Mistral's own files.
"""

_LAST = {
    "w1": "gate_proj", "w3": "up_proj", "w2": "down_proj", "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj",
    "attn_output": "o_proj", "ffn_gate": "gate_proj", "ffn_up": "up_proj", "ffn_down": "down_proj", "ffn_gate_exps": "gate_proj",
    "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj", "ffn_gate_shexp": "gate_proj", "ffn_up_shexp": "up_proj",
    "ffn_down_shexp": "down_proj", "ffn_gate_inp": "gate", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "token_embd": "embed_tokens", "output": "lm_head", "output_norm": "norm", "router": "gate", "word_embeddings": "embed_tokens",
    "wte": "embed_tokens", "embed_in": "embed_tokens", "embed_out": "lm_head", "ln_f": "norm", "final_layer_norm": "norm",
    "embed": "embed_tokens", "embedding": "embed_tokens", "embeddings": "embed_tokens", "new_embedding": "embed_tokens", "tok_embeddings": "embed_tokens", "head": "lm_head", "output_layer": "lm_head", "wq": "q_proj",
    "wk": "k_proj", "wv": "v_proj",
}  # fmt: skip
_JOINED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv", "attn_qkv"), ("q_proj", "k_proj", "v_proj")),
    **dict.fromkeys(("gate_up_proj", "w13", "gate_up"), ("gate_proj", "up_proj")),
}  # fmt: skip
BIAS = ".bias"


@dataclass(frozen=True, slots=True)
class Module:
    """The module of a tensor, by the tensor's name within its layer.

    keys: the modules that it belongs to; for joined projections those first, then their own. part: what it holds of
    them. name: of the module. inner: of the tensor, with expert numbers replaced by 0.
    """

    keys: tuple[Key, ...]
    part: Part
    name: str
    inner: str


@lru_cache(maxsize=65_536)
def module(inner: str) -> Module:
    """The module of a tensor with that name in its layer, in which expert numbers are replaced by 0."""
    name, part = _parted(inner)
    kind, last = key_of(name)
    own, bias, _ = last.partition(BIAS)
    keys = (*_JOINED.get(own, ()), own)
    return Module(tuple((kind, each + bias) for each in keys), "bias" if bias else part, name, inner)


def _parted(inner: str) -> tuple[str, Part]:
    """A tensor's module and what it holds of it, by the first telling part of its name, from the module's side.

    An adapter beside a matrix (Phi-4-multimodal's) holds none of its elements.
    """
    owner, adapter, _ = inner.partition(".lora_")
    if adapter:
        return _parted(owner)[0], "fact"
    name = re.sub(r"(?<=proj)_(?=(?:blocks|scales|bias)$)", ".", inner)  # of experts in one tensor (gpt-oss)
    part: Part = "matrix"
    while True:
        outer, dot, last = name.rpartition(".")
        found = "fact" if last.startswith("bitsandbytes__") else _PARTS.get(last)
        if not dot or found is None:
            return name, part
        name, part = outer, part if part != "matrix" and found == "matrix" else found


def key_of(name: str) -> Key:
    """The key of a module: `model.layers.3.mlp.experts.0.w1` is ("expert", "gate_proj")."""
    name = bare(name)
    owner = name.removesuffix(BIAS)
    if owner != name:
        kind, last = key_of(owner)
        return kind, last + BIAS
    last = name.rpartition(".")[2]
    shared = "shared" in name or last.endswith("_shexp")
    routed = not shared and ("experts" in name or last.endswith("_exps"))
    return "shared" if shared else "expert" if routed else "", _LAST.get(last, last)
