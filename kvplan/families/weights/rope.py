"""Tables of rotary positions that engines keep beside the weights: one row per position, cosines and sines.

A table has as many rows as positions the model was made for, and as many columns as rotated elements of a head. Layers
with the same rotation share one. Source: vLLM 0.33 layers/rotary_embedding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

from kvplan.arch.layers import Attention, Compressed, Latent, Layer
from kvplan.arch.storage import FP32, Storage
from kvplan.arch.weight import CLOCKED
from kvplan.arch.weights import CAUSAL_MASK, Block, Weight
from kvplan.families import typed
from kvplan.families.fields import Fields
from kvplan.families.scalings import EVERY_LAYER, NAMES, Scaling, scalings
from kvplan.families.spellings import ORIGINAL, STATED, TABLES
from kvplan.families.typed import LARGEST
from kvplan.families.weights.rotary_rules import RotaryRule, rule_of

NAME = "rotary_emb.cos_sin_cache"
POSITIONS_PER_TOKEN = 4
"""Rows per position of models whose positions follow a video's clock (mrope), where they may outrun the tokens."""

OWN_BASE = ("rope_local_base_freq", "swa_rope_theta", "compress_rope_theta")
"""Fields that give window layers a base of their own."""


def tables(fields: Fields, layers: tuple[Layer, ...], dtype: Storage) -> Block:
    """The tables of a model; empty when it rotates nothing or states no length."""
    rule = rule_of(fields.model_type)
    if not rule.rotates or fields.stated_flag("alibi"):
        return ()
    kind = fields.text("position_embedding_type")
    if (rule.if_stated and kind != "rope") or kind == "nope":
        return ()
    length = _length(fields, rule)
    if not _sound(length):
        return ()
    if rule.mask:
        return (Weight(CAUSAL_MASK, (int(length), int(length)), "norm", Storage("bool", 8)),)
    found: dict[tuple[object, ...], Weight] = {}
    for head, local in _heads(layers):
        scaling = _scaling(fields, local)
        shape = (_rows(fields, rule, scaling, int(length), local), _columns(fields, scaling, head))
        apart = local and (rule.two_bases or fields.has(*OWN_BASE))
        clocked = rule.clocked or (scaling.get("mrope_section") and not rule.outruns)
        found[shape, apart] = Weight(CLOCKED if clocked else NAME, shape, "norm", FP32 if rule.precise else dtype)
    return (*found.values(), *_of_indexers(fields, layers, found.values()))


def _length(fields: Fields, rule: RotaryRule) -> object:
    """What the config states as the number of positions, else its class."""
    names = TABLES[0], *filter(fields.defaults.reads, (*TABLES[1:], *STATED))
    stated = fields.find(*STATED[:1], *names) if rule.own_word else fields.find(*names)
    if stated is None:
        return fields.defaults.value(TABLES[0])
    beyond = isinstance(stated[1], int | float) and stated[1] > LARGEST  # tokenizers' "no limit"
    return 0 if beyond else typed.whole(fields.path + stated[0], stated[1], least=-1)


def _of_indexers(fields: Fields, layers: tuple[Layer, ...], main: Iterable[Weight]) -> Block:
    """Indexers turn halves of a key where latents turn pairs, and so have a table of their own, unless the config says otherwise.

    Source: vLLM 0.33 models/deepseek_v2.py indexer_rope_emb.
    """
    indexed = any(isinstance(cache, Latent) and cache.indexer is not None for layer in layers for cache in layer.caches)
    if not indexed or fields.stated_flag("indexer_rope_interleave"):
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


def _scaling(fields: Fields, local: bool) -> Scaling:  # noqa: FBT001 - which layers, not what to do
    """The scaling of all layers, or of window or of full layers where they differ."""
    found = scalings(fields)
    return found.get("sliding_attention" if local else "full_attention", found.get(EVERY_LAYER, {}))


def _kind(scaling: Scaling) -> str:
    return str(scaling.get("rope_type") or scaling.get("type") or "default")


def _rows(fields: Fields, rule: RotaryRule, scaling: Scaling, length: int, local: bool) -> int:  # noqa: FBT001
    kind, factor, original = _kind(scaling), scaling.get("factor"), scaling.get(ORIGINAL)
    if rule.outruns and scaling.get("mrope_section"):
        return length * POSITIONS_PER_TOKEN
    if local and (rule.two_bases or fields.has("rope_local_base_freq")):
        return length
    if kind == "yarn" and _sound(factor):
        return int(_trained(fields, scaling, length) * factor)
    if kind == "linear" and _sound(factor):
        return int(length * factor)
    if kind in ("longrope", "su"):
        stated = original or fields.node.get(ORIGINAL)
        return length + (int(stated) if _sound(stated) else 0)
    return length


def _trained(fields: Fields, scaling: Scaling, length: int) -> int | float:
    """The length before yarn stretched it: what stands beside a scaling of all layers, else in it, else the stated length.

    Source: transformers 5.19 modeling_rope_utils.py standardize_rope_params; asked of vLLM 0.33.
    """
    beside = fields.node.get(ORIGINAL) if scaling in (fields.node.get(name) for name in NAMES) else None
    return next((each for each in (beside, scaling.get(ORIGINAL)) if _sound(each)), length)


def _sound(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that can stretch a table."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < LARGEST


def _columns(fields: Fields, scaling: Scaling, head: int) -> int:
    if head < 0:
        return -head
    stated = fields.whole("rotary_dim", "qk_rope_head_dim", least=0)
    if stated:
        return stated
    if _kind(scaling) == "proportional":
        return head
    share = scaling.get("partial_rotary_factor")
    if share is None:
        found = fields.ratio("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percent")
        share = float(found) if found is not None else fields.defaults.value("partial_rotary_factor")
    return int(head * share) if _sound(share) and share <= 1 else head
