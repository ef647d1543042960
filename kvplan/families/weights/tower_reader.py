"""Towers of a config: vision, audio and text encoders, and the projectors behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan.arch.storage import Storage
from kvplan.arch.weights import Block, Component, Weight
from kvplan.errors import MissingField
from kvplan.families.defaults import class_defaults
from kvplan.families.fields import Fields
from kvplan.families.locate import NESTED
from kvplan.families.weights.family import Family
from kvplan.families.weights.own_towers import OWN
from kvplan.families.weights.symbols import ConfigSymbols
from kvplan.families.weights.template import build
from kvplan.families.weights.towers import ALONE, KEYS, PROJECTOR_GIVEN, PROJECTORS, TOWERS, Tower

GENERIC = frozenset(("clip_vision_model", "siglip_vision_model", "pixtral"))
"""Towers that a class only suggests: a config may name another."""


def read_towers(fields: Fields, family: Family, text: ConfigSymbols, stored: Storage) -> tuple[Block, tuple[str, ...]]:
    """Every tensor of the towers and projectors, and the names of those that can't be derived."""
    found: list[Weight] = []
    missing: list[str] = []
    for tower in family.towers:
        found += _stack(tower, "encoder", text, stored, missing)
    top = _top(fields)
    scopes: dict[str, ConfigSymbols] = {}
    for key, component in KEYS:
        read = _tower_fields(top, key, fields)
        if read is None:
            continue
        inner, tower_type = read
        known = TOWERS.get(tower_type)
        if known is None:
            missing.append(f"{component} tower ({tower_type or 'of no known type'})")
            continue
        if not isinstance(top.get(key), Mapping):
            missing.append(f"{component} tower ({key} isn't stated: as its class has it)")
        scopes[component] = ConfigSymbols(inner, dict(known.given), dict(known.fallback))
        found += _stack(known, component, scopes[component], stored, missing)
    found += _own_towers(fields, stored, missing)
    missing += [part for node in _outside(fields, top) for part in _others(node)]
    if scopes or str(top.get("model_type")) in ALONE:
        found += _projector(top, fields, {**scopes, "text": text}, stored, missing)
    return tuple(found), tuple(missing)


def _own_towers(fields: Fields, stored: Storage, missing: list[str]) -> list[Weight]:
    """Towers that the model's own code builds from an object of its own name."""
    found: list[Weight] = []
    for key, (model_type, component, tower) in OWN.items():
        inner = fields.node.get(key)
        if fields.model_type == model_type and isinstance(inner, Mapping):
            fields.ledger.read.add(key)
            symbols = ConfigSymbols(replace(fields, node=inner, path=f"{key}."), dict(tower.given))
            found += _stack(tower, component, symbols, stored, missing)
    return found


def _outside(fields: Fields, top: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The object that describes towers, and the whole config around it."""
    whole = fields.parents[-1] if fields.parents else fields.node
    return [top] if whole is top else [top, whole]


def _others(top: Mapping[str, Any]) -> list[str]:
    """Parts of the config, stated or by its class, that describe something with weights of its own."""
    by_class = class_defaults(str(top.get("model_type") or "")).values.get("sub_configs", {})
    stated = [key for key in OTHER_PARTS if isinstance(top.get(key), Mapping)]
    suggested = [key for key in by_class if key not in top and key not in KNOWN_PARTS]
    return list(dict.fromkeys((*stated, *suggested)))


OTHER_PARTS = (
    "encoder_config", "speech_config", "projector_config", "aligner_config", "talker_config", "token2wav_config", "qformer_config",
    "acoustic_tokenizer_config", "acoustic_tokenizer_encoder_config", "semantic_tokenizer_config", "semantic_tokenizer_encoder_config",
    "diffusion_head_config", "perceiver_config", "resampler_config", "vq_config", "audio_encoder_config", "depth_decoder_config",
)  # fmt: skip
"""Objects that describe parts kvplan has no tables for."""

KNOWN_PARTS = frozenset((
    *(key for key, _ in KEYS), *NESTED, "attn_config", "ffn_config", "encoder", "quantization_config", "rope_parameters", "rope_scaling",
    "audio_encoder_config", "depth_decoder_config",
))  # fmt: skip
"""Objects that are read elsewhere, or that the language model does without."""

READ_PARTS = frozenset((*(key for key, _ in KEYS), *OTHER_PARTS, "attn_config", "ffn_config"))
"""Objects that are read here, or named as missing."""


def _top(fields: Fields) -> Mapping[str, Any]:
    """The nearest enclosing object that describes a tower, else the outermost."""
    for node in (fields.node, *fields.parents):
        if any(node.get(key) is not None for key, _ in KEYS):
            return node
    return fields.parents[-1] if fields.parents else fields.node


def _tower_fields(top: Mapping[str, Any], key: str, text: Fields) -> tuple[Fields, str] | None:
    defaults = class_defaults(str(top.get("model_type") or ""))
    suggested = dict(defaults.values.get("sub_configs", {}).get(key, {}))
    stated = top.get(key)
    if (key in top and stated is None) or (stated is None and not suggested):
        return None
    node = {**suggested, **(stated if isinstance(stated, Mapping) else {})}
    if (
        isinstance(stated, Mapping) and stated
    ):  # what it leaves out is its own class's, not what the whole's class suggests
        node = {**{key: suggested[key] for key in ("model_type",) if key in suggested}, **stated}
    by_class, by_config = str(suggested.get("model_type") or ""), str(node.get("model_type") or "")
    tower_type = by_config if not by_class or (by_class in GENERIC and by_config in TOWERS) else by_class
    return Fields(node, f"{key}.", class_defaults(tower_type), text.ledger), tower_type


def _stack(
    tower: Tower, component: Component, symbols: ConfigSymbols, stored: Storage, missing: list[str]
) -> list[Weight]:
    try:
        symbols = symbols if tower.more is None else symbols.also(tower.more(symbols))
        found = list(build(f"{component}: {tower.ends}", symbols, stored))
        for count, layer in ((tower.count, tower.layer), *tower.also):
            if layer:
                repeated = symbols.number(count)
                heads = symbols.maybe("A") or 0
                found += [
                    replace(weight, copies=repeated, units=heads if weight.name.startswith("attn.") else 0)
                    for weight in build(f"{component}: {layer}", symbols, stored)
                ]
    except MissingField as gap:
        missing.append(f"{component} tower ({gap.field})")
        return []
    return [weight for weight in found if weight.copies]


def _projector(
    top: Mapping[str, Any], fields: Fields, scopes: Mapping[str, ConfigSymbols], stored: Storage, missing: list[str]
) -> list[Weight]:
    kind = str(top.get("model_type") or "")
    template = PROJECTORS.get(kind)
    if template is None:
        missing.append("projector")
        return []
    own = Fields(top, "", class_defaults(kind), fields.ledger)
    given = {**PROJECTOR_GIVEN.get(kind, {}), **{name: name in scopes for name in ("vision", "audio")}}
    try:
        return list(build(f"projector: {template}", ConfigSymbols(own, given, {}, scopes), stored))
    except MissingField as gap:
        missing.append(f"projector ({gap.field})")
        return []
