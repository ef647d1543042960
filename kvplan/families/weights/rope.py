"""Tables of rotary positions that engines keep beside the weights: one row per position, cosines and sines.

A table has as many rows as positions the model was made for, and as many columns as rotated elements of a head. Layers
with the same rotation share one. Source: vLLM 0.33 layers/rotary_embedding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from kvplan.arch.layers import Attention, Compressed, Latent, Layer
from kvplan.arch.storage import FP32, Storage
from kvplan.arch.weight import CLOCKED
from kvplan.arch.weights import CAUSAL_MASK, Block, Weight
from kvplan.families.fields import LARGEST, Fields

NAME = "rotary_emb.cos_sin_cache"
POSITIONS_PER_TOKEN = 4
"""Rows per position of models whose positions follow a video's clock (mrope), where they may outrun the tokens."""

OUTRUN = frozenset((
    "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text", "glm4v", "glm4v_text", "glm4v_moe_text",
    "qwen3_asr_text", "qwen3_omni_moe_text", "keye", "paddleocr_vl", "ernie4_5_vl_moe_text",
))  # fmt: skip
CLOCKS = frozenset(("qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_5_text", "qwen3_5_moe_text"))
"""Types whose positions follow that clock by their class's default, and never outrun the tokens. Source: transformers 5.23
models/qwen3_vl and qwen3_5: config.rope_parameters.get("mrope_section", ...)."""

PRECISE = frozenset(("gpt_oss", "deepseek_v4"))
"""Types whose tables stay in fp32."""

OWN_BASE = ("rope_local_base_freq", "swa_rope_theta", "compress_rope_theta")
"""Fields that give window layers a base of their own."""

TWO_BASES = frozenset(("gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text", "modernbert-decoder"))
"""Types whose window layers rotate with a base of their own, by their class's defaults."""

WITHOUT = frozenset((
    "gpt2", "gpt-sw3", "gpt_neo", "openai-gpt", "opt", "bloom", "mpt", "t5", "mt5", "bart", "mbart", "whisper",
    "jamba", "nemotron_h", "mamba", "mamba2", "falcon_mamba", "kimi_linear", "minimax_text_01_none", "biogpt", "xglm",
))  # fmt: skip
"""Types that learn positions, bias scores by distance, or have none."""


def tables(fields: Fields, layers: tuple[Layer, ...], dtype: Storage) -> Block:
    """The tables of a model; empty when it rotates nothing or states no length."""
    if fields.model_type in WITHOUT or fields.find("alibi") == ("alibi", True):
        return ()
    kind = fields.find("position_embedding_type")
    if kind is not None and kind[1] == "nope":
        return ()
    if fields.model_type == "granitemoehybrid" and (kind is None or kind[1] != "rope"):
        return ()
    longer = fields.find("model_max_length") if fields.model_type in ("cohere", "cohere2") else None
    stated = longer or fields.find(
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "model_max_length"
    )
    length = stated[1] if stated is not None else fields.defaults.value("max_position_embeddings")
    if not _sound(length):
        return ()
    if fields.model_type == "gpt_bigcode":
        return (Weight(CAUSAL_MASK, (int(length), int(length)), "norm", Storage("bool", 8)),)
    found: dict[tuple[object, ...], Weight] = {}
    for head, local in _heads(layers):
        scaling = _scaling(fields, local)
        shape = (_rows(fields, scaling, int(length), local), _columns(fields, scaling, head))
        apart = local and (fields.model_type in TWO_BASES or fields.has(*OWN_BASE))
        clocked = fields.model_type in CLOCKS or (scaling.get("mrope_section") and fields.model_type not in OUTRUN)
        found[shape, apart] = Weight(CLOCKED if clocked else NAME, shape, "norm", _stored(fields, dtype))
    return (*found.values(), *_of_indexers(fields, layers, found.values()))


def _of_indexers(fields: Fields, layers: tuple[Layer, ...], main: Iterable[Weight]) -> Block:
    """Indexers turn halves of a key where latents turn pairs, and so have a table of their own, unless the config says otherwise.

    Source: vLLM 0.33 models/deepseek_v2.py indexer_rope_emb.
    """
    indexed = any(isinstance(cache, Latent) and cache.indexer is not None for layer in layers for cache in layer.caches)
    if not indexed or fields.find("indexer_rope_interleave") == ("indexer_rope_interleave", True):
        return ()
    return tuple(replace(table, stored=FP32) for table in main)


def _heads(layers: tuple[Layer, ...]) -> Iterable[tuple[int, bool]]:
    """Distinct (elements of a key that may rotate, whether the layer sees a window)."""
    found: dict[tuple[int, bool], None] = {}
    for layer in layers:
        for cache in layer.caches:
            if isinstance(cache, Attention):
                found[cache.k_dim, cache.window is not None] = None
            elif isinstance(cache, Latent):
                found[-cache.rope_dim, False] = None
            elif isinstance(cache, Compressed):
                found[cache.dim, cache.ratio is None] = None
    return found


def _scaling(fields: Fields, local: bool) -> Mapping[str, Any]:  # noqa: FBT001 - which layers, not what to do
    """rope_parameters or rope_scaling, those of window or of full layers where they differ."""
    for name in ("rope_parameters", "rope_scaling"):
        value = fields.node.get(name)
        if isinstance(value, Mapping):
            own = value.get("sliding_attention" if local else "full_attention")
            return own if isinstance(own, Mapping) else value
    return {}


def _kind(scaling: Mapping[str, Any]) -> str:
    return str(scaling.get("rope_type") or scaling.get("type") or "default")


def _rows(fields: Fields, scaling: Mapping[str, Any], length: int, local: bool) -> int:  # noqa: FBT001
    kind, factor, original = _kind(scaling), scaling.get("factor"), scaling.get("original_max_position_embeddings")
    if fields.model_type in OUTRUN and scaling.get("mrope_section"):
        return length * POSITIONS_PER_TOKEN
    if local and (fields.model_type in TWO_BASES or fields.has("rope_local_base_freq")):
        return length
    if kind == "yarn" and _sound(factor) and _sound(original):
        return int(original * factor)
    if kind == "linear" and _sound(factor):
        return int(length * factor)
    if kind in ("longrope", "su"):
        stated = original or fields.node.get("original_max_position_embeddings")
        return length + (int(stated) if _sound(stated) else 0)
    return length


def _sound(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that can stretch a table."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < LARGEST


def _columns(fields: Fields, scaling: Mapping[str, Any], head: int) -> int:
    if head < 0:
        return -head
    stated = fields.find("rotary_dim", "qk_rope_head_dim")
    if stated is not None and _sound(stated[1]):
        return int(stated[1])
    if _kind(scaling) == "proportional":
        return head
    share = scaling.get("partial_rotary_factor")
    if share is None:
        found = fields.find("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percent")
        share = found[1] if found is not None else fields.defaults.value("partial_rotary_factor")
    return int(head * share) if _sound(share) and share <= 1 else head


def _stored(fields: Fields, dtype: Storage) -> Storage:
    return FP32 if fields.model_type in PRECISE else dtype
