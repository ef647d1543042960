"""Symbols that take more than an expression to work out, family by family, each with where the rule stands."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

from kvplan.errors import MissingField
from kvplan.families import typed
from kvplan.families.attention import values_are_keys
from kvplan.families.latent import rotating_layers
from kvplan.families.patterns import MLP_LETTERS, MLP_WORDS
from kvplan.families.weights.family import Given
from kvplan.families.weights.pattern import feed_forwards
from kvplan.families.weights.symbols import ConfigSymbols


def lfm2(symbols: ConfigSymbols) -> Given:
    """MLP width of LFM2: two thirds, scaled, rounded up. Source: transformers 5.23 models/lfm2, Lfm2MLP."""
    width = symbols.maybe("block_ff_dim") or symbols.number("I")
    if not symbols.on("block_auto_adjust_ff_dim"):
        return {"I": width}
    width = int(2 * width / 3)
    found = symbols.fields.ratio("block_ffn_dim_multiplier")
    scale = float(found) if found is not None else symbols.fields.defaults.value("block_ffn_dim_multiplier")
    if isinstance(scale, int | float):
        multiple = symbols.number("block_multiple_of")
        width = multiple * -(-int(scale * width) // multiple)
    return {"I": width}


def falcon(symbols: ConfigSymbols) -> Given:
    """Falcon's second norm: models of the new decoder, and those that don't run attention beside the MLP.

    RefinedWeb's first code told the new decoder by its number of KV heads. Source: transformers 5.23 models/falcon,
    FalconDecoderLayer; modelling_RW.py of the published checkpoints.
    """
    if not symbols.on("parallel_attn"):
        return {"two_norms": True}
    norms = symbols.maybe("num_ln_in_parallel_attn")
    new_decoder = symbols.on("new_decoder_architecture") or symbols.maybe("n_head_kv") is not None
    return {"two_norms": norms == 2 or (norms is None and new_decoder)}


def mimo_sinks(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """Window layers of MiMo-V2 have attention sinks. Source: transformers 5.23 models/mimo_v2_flash."""
    del layer, count
    return {"sinks": symbols.on("windowed")}


def nemotron_ffn(symbols: ConfigSymbols, count: int) -> tuple[str, ...]:
    """MLP or experts of Nemotron-H's layers without a mixer. Source: transformers 5.23 models/nemotron_h."""
    fields = symbols.fields
    found = fields.find("hybrid_override_pattern", "layers_block_type", "layer_types")
    entries = found[1] if found is not None else fields.defaults.pattern("layers_block_type", count) or ()
    words = MLP_WORDS | MLP_LETTERS
    listed = tuple(words.get(entry, "") for entry in list(entries)[:count])
    return listed + ("dense",) * (count - len(listed))


def nemotron(symbols: ConfigSymbols) -> Given:
    """Experts that work on a compressed hidden state. Source: transformers 5.23 models/nemotron_h."""
    return {
        "L": "moe_latent_size" if symbols.maybe("moe_latent_size") else "H",
        "compressed": bool(symbols.maybe("moe_latent_size")),
    }


def kimi(symbols: ConfigSymbols) -> Given:
    """Experts that work on a narrower hidden state, and a gate of full rank. Source: vLLM 0.33 models/kimi_k3."""
    narrow = symbols.maybe("routed_expert_hidden_size")
    return {
        "L": "routed_expert_hidden_size" if narrow else "H", "compressed": bool(narrow),
        "latent_norm": bool(narrow) and symbols.on("latent_moe_use_norm"),
        "full_gate": symbols.on("linear_attn_config.use_full_rank_gate"),
        "residuals": symbols.on("attn_res_block_size"),
    }  # fmt: skip


def chatglm(symbols: ConfigSymbols) -> Given:
    """The first ChatGLM (of 2023, told by its inner_hidden_size): no gate, and a bias everywhere.

    Source: THUDM/chatglm-6b modeling_chatglm.py, GLU and GLMBlock.
    """
    first = symbols.fields.has("inner_hidden_size") and not symbols.fields.has("ffn_hidden_size")
    return {"first": True, "add_qkv_bias": True, "add_bias_linear": True} if first else {"first": False}


def jamba_ffn(symbols: ConfigSymbols, count: int) -> tuple[str, ...]:
    """A single expert has no router: it is an MLP. Source: transformers 5.23 models/jamba, JambaAttentionDecoderLayer."""
    if symbols.maybe("E") == 1:
        return ("dense",) * count
    return feed_forwards(symbols.fields, symbols, count)


def gemma4(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """Keys that double as values, and MLPs twice as wide where layers share a cache.

    Source: transformers 5.23 models/gemma4, Gemma4TextAttention and Gemma4TextMLP.
    """
    del layer, count
    wide = symbols.on("use_double_wide_mlp") and not symbols.on("keeps")
    return {"own_v": symbols.on("windowed") or not values_are_keys(symbols.fields), "W": "2*I" if wide else "I"}


def all_experts(symbols: ConfigSymbols, count: int) -> tuple[str, ...]:
    """Experts in every layer, with no switch. Source: transformers 5.23 models/diffusion_gemma/modeling_diffusion_gemma.py."""
    del symbols
    return ("moe",) * count


def gemma4_ffn(symbols: ConfigSymbols, count: int) -> tuple[str, ...]:
    """Experts beside the MLP in every layer, where the config switches them on."""
    return ("moe" if symbols.on("enable_moe_block") else "dense",) * count


def t5(symbols: ConfigSymbols) -> Given:
    """T5's MLP has a gate when feed_forward_proj says so, else one projection in."""
    found = symbols.fields.text("feed_forward_proj")
    stated = found if found is not None else symbols.fields.defaults.value("feed_forward_proj")
    return {"gated_ffn": isinstance(stated, str) and stated.startswith("gated")}


def after_first(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """Every layer but the first. Source: transformers 5.23 models/modernbert_decoder, attn_norm."""
    del symbols, count
    return {"inner": layer > 0}


def inkling(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """How far relative positions reach: the window, or rel_extent. Source: transformers 5.23 models/inkling."""
    del layer, count
    return {"reach": "sliding_window_size" if symbols.on("windowed") else "rel_extent"}


def searched(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """Nemotron-NAS: each block has an MLP of its own width, a linear layer in its place, or nothing; attention likewise.

    Width: two thirds of ffn_mult x hidden_size x 2, rounded up to a multiple of 256.
    Source: nvidia/Llama-3_3-Nemotron-Super-49B-v1 modeling_decilm.py, _ffn_mult_to_intermediate_size.
    """
    del count
    blocks = symbols.fields.items("block_configs") or ()
    if not blocks:  # DeciLM before its search moved into blocks: one ordinary MLP a layer
        return {"ffn": True, "linear_ffn": False, "feeds": True, "attends": True, "linear_attention": False}
    block = blocks[layer] if layer < len(blocks) and isinstance(blocks[layer], Mapping) else {}
    path = f"{symbols.fields.path}block_configs[{layer}]."
    attention, ffn = (typed.table(path + name, block.get(name) or {}) for name in ("attention", "ffn"))

    linear, none = _on(ffn, f"{path}ffn.", "replace_with_linear"), _on(ffn, f"{path}ffn.", "no_op")
    plain = not linear and not none
    if plain and ffn.get("ffn_mult") is None:
        raise MissingField(f"{path}ffn.ffn_mult")
    scale = float(typed.positive(f"{path}ffn.ffn_mult", ffn["ffn_mult"])) if plain else 0
    return {
        "I": 256 * -(-int(2 * scale * symbols.number("H") / 3) // 256), "ffn": plain, "linear_ffn": linear, "feeds": not none,
        "attends": not _on(attention, f"{path}attention.", "no_op"),
        "linear_attention": _on(attention, f"{path}attention.", "replace_with_linear"),
    }  # fmt: skip


def _on(part: Mapping[str, Any], path: str, name: str) -> bool:
    """Whether a part of a block says yes to a question; what it doesn't mention is off."""
    return part.get(name) is not None and typed.switch(path + name, part[name])


def doge(symbols: ConfigSymbols) -> Given:
    """Keys of Doge's product-key routing: the root of the number of experts. Source: transformers 5.23 models/doge."""
    return {"keys": isqrt(symbols.maybe("num_experts") or 0)}


def only_experts(symbols: ConfigSymbols, count: int) -> tuple[str, ...]:  # noqa: ARG001 - every family's rule has it
    """Experts in every layer, whatever fields inherited from relatives say."""
    return ("moe",) * count


def later(symbols: ConfigSymbols, layer: int, count: int) -> Given:  # noqa: ARG001 - every family's rule has them
    """Whether a layer has one before it."""
    return {"later": layer > 0}


def mistral_large4(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """Keys of layers without rotation have no rotary part, also where the cache is an earlier layer's.

    Source: transformers 5.23 models/mistral_large4.
    """
    if rotating_layers(symbols.fields, count)[layer]:
        return {
            "latent": "kv_lora_rank+qk_rope_head_dim",
            "expanded": "qk_nope_head_dim+v_head_dim",
            "qk": "qk_head_dim",
        }
    return {"latent": "kv_lora_rank", "expanded": "qk_head_dim+v_head_dim", "qk": "qk_head_dim"}
