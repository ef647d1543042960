"""How configs say what a model keeps: from a parsed config.json to a Model. Pure; unknown means error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kvplan.arch.layers import Layer
from kvplan.arch.model import Model, Origin
from kvplan.families import context, guard, loops, numbers, standard, weights
from kvplan.families.attention import width
from kvplan.families.drafts import draft_layers, kept
from kvplan.families.fields import Fields, class_names
from kvplan.families.locate import refuse_encoder, text_fields
from kvplan.families.own import encoders, heads, refusals, states
from kvplan.families.own.glm import glm_traits
from kvplan.families.own.windows import window_traits
from kvplan.families.quantization import quantized
from kvplan.families.spellings import HEADS
from kvplan.families.traits import traits
from kvplan.families.windows import windows

Reader = Callable[[Fields], tuple[Layer, ...]]

READERS: dict[str, Reader] = {
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel", "gpt_bigcode", "chatglm"), heads.flagged_heads),
    "openelm": heads.listed_heads,
    "hrm_text": loops.two_stacks,
    "longcat_flash": heads.doubled_layers,
    **dict.fromkeys(("zamba2", "zamba"), states.zamba),
    "bailing_hybrid": states.bailing,
    "recurrent_gemma": states.griffin,
    **dict.fromkeys(("rwkv", "rwkv5", "rwkv6", "rwkv7"), states.rwkv),
    **dict.fromkeys(("gated_deltanet", "delta_net"), states.fla_delta_net),
    **dict.fromkeys(("gla", "retnet"), states.fla_linear),
    "gsa": states.fla_slots,
    "hgrn2": states.hgrn2,
    "transformer": standard.layers,  # flash-linear-attention's own, with num_heads and num_kv_heads
    "samba": states.fla_mamba,
    **dict.fromkeys(("xlstm", "xlnet", "reformer", "transfo-xl", "phi4flash"), refusals.unlike_any),
    **dict.fromkeys(("blip", "blip_text_model"), refusals.beside_an_image),
    "minimax_text_01": refusals.stated_pattern,
    **dict.fromkeys(("mllama", "mllama_text_model"), encoders.image_cross_attention),
}
"""Types that don't say it in the standard fields. Everything else is read by its fields."""


def read(config: Mapping[str, Any], origin: Origin, companions: Mapping[str, Mapping[str, Any]] | None = None) -> Model:
    """The model that a config describes.

    config: a parsed config.json. companions: parsed files beside it, by name (hf_quant_config.json,
    quantize_config.json).

    Raises: MissingField, BadField, Unsupported.
    """
    beside = companions or {}
    fields = text_fields(config)
    refuse_encoder(fields)
    layers = _reader(fields)(fields)
    looped = loops.passed(fields, layers)
    guard.refuse_unread(fields, layers, own_reader=fields.model_type in READERS)
    guard.refuse_no_mlp(fields, layers)
    drafts = draft_layers(fields, layers)
    return Model(
        origin=origin,
        family=fields.model_type or "unnamed",
        layers=kept(fields, looped),
        dtype=numbers.dtype(fields),
        context=context.context(fields),
        hidden_size=width(fields),
        vocab_size=fields.whole_or_default("vocab_size", "padded_vocab_size"),
        kv_hint=numbers.kv_hint(fields, beside),
        draft_layers=drafts,
        weights=weights.read(fields, layers, beside, drafts),
        defaulted=tuple(fields.ledger.defaulted.values()),
        notes=tuple(fields.ledger.notes),
        architectures=_architectures(fields),
        attention_heads=fields.of_class(*HEADS),
        traits=(*traits(fields), *glm_traits(fields), *window_traits(fields)),
        quantized=quantized(fields, beside),
        windows=windows(fields, len(layers)),
        whole=_whole_type(fields),
        inner_architectures=_names((fields.node,)) if fields.parents else (),
    )


def _architectures(fields: Fields) -> tuple[str, ...]:
    """Class names, the outermost config's first: it is the one that engines load."""
    return _names((*reversed(fields.parents), fields.node))


def _names(nodes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Classes that the first of these objects names which names any."""
    return next((class_names(node) for node in nodes if isinstance(node.get("architectures"), list | tuple)), ())


def _whole_type(fields: Fields) -> str:
    """The model type of the outermost object, "" when it has none."""
    outermost = fields.parents[-1].get("model_type") if fields.parents else fields.model_type
    return outermost if isinstance(outermost, str) else ""


def _reader(fields: Fields) -> Reader:
    named = READERS.get(fields.model_type)
    if named is not None:
        return named
    if fields.path == "decoder." and any(key in fields.parents[0] for key in encoders.ENCODER_KEYS):
        return encoders.beside_encoder
    if fields.has("decoder_layers", "num_decoder_layers") or fields.defaults.values.get("is_encoder_decoder"):
        return encoders.encoder_decoder
    if fields.has("block_configs"):
        return heads.block_configs
    if fields.has("ssm_cfg"):
        return states.state_space_package
    listed = any(isinstance(fields.node.get(name), list) for name in heads.PER_LAYER_KV_HEADS)
    return heads.listed_heads if listed else standard.layers
