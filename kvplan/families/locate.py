"""Where in a config the text model's dimensions stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan.errors import MissingField, Unsupported
from kvplan.families.defaults import class_defaults, is_encoder, of_architecture
from kvplan.families.fields import Fields, Ledger, class_names
from kvplan.families.objects import refuse_others
from kvplan.families.spellings import HEADS, LAYERS, WIDTH
from kvplan.text import any_of

NESTED = ("text_config", "llm_config", "language_config", "llm_cfg", "thinker_config", "language_model", "decoder")
"""Keys that hold the language model of a multimodal config, in the order they are tried."""

LAYER_COUNTS = (
    *LAYERS, "decoder_layers", "num_decoder_layers", "layers_block_type", "block_configs", "hybrid_override_pattern", "ssm_cfg",
    "num_layers_per_stack",
)  # fmt: skip
"""Fields that say how many layers there are: a config without any of them is not the one that counts."""


def text_fields(config: Mapping[str, Any]) -> Fields:
    """The object that describes the language model, found by its fields.

    A nested object wins over the top level when it has a layer count; a nested object without one still counts when the
    top level has none either, because multimodal configs save only what differs from the nested class's defaults. Where
    the type's class looks into a nested object alone, what stands at the top counts for nothing, and a nested object that
    is left out is the class's own.

    Raises: MissingField if nothing has a layer count, or if it stands where the type's class doesn't look; BadField if what should
    be an object is something else.
    """
    refuse_others(config)
    ledger = Ledger()
    return _descend(config, "", None, (), ledger)


def _descend(
    node: Mapping[str, Any], path: str, inherited: str | None, parents: tuple[Mapping[str, Any], ...], ledger: Ledger
) -> Fields:
    stated = node.get("model_type")
    model_type = stated if isinstance(stated, str) else inherited
    here = Fields(node, path, class_defaults(model_type), ledger, parents)
    nested = tuple(key for key in NESTED if isinstance(node.get(key), Mapping))
    deeper = next((key for key in nested if _leads_to_layers(node[key])), None)
    if deeper is not None:
        return _into(here, deeper, here.defaults.nested_type(deeper))
    if _has_layers(node) and (here.defaults.text_key is None or parents or _of_other_code(node)):
        return _flat(here)
    return _by_class(here, nested)


def _into(here: Fields, key: str, model_type: str | None) -> Fields:
    return _descend(here.node[key], f"{here.path}{key}.", model_type, (here.node, *here.parents), here.ledger)


def _leads_to_layers(inner: Mapping[str, Any]) -> bool:
    return _has_layers(inner) or any(isinstance(inner.get(deeper), Mapping) for deeper in NESTED)


def _by_class(here: Fields, nested: tuple[str, ...]) -> Fields:
    """The object whose class knows its dimensions, where none states a layer count where its class looks.

    Raises: MissingField where there is no such class.
    """
    for key in nested:
        inner_type = here.node[key].get("model_type") or here.defaults.nested_type(key)
        if here.node[key] and class_defaults(inner_type).known:
            flat = here.unread(*LAYER_COUNTS)
            if flat is not None:
                here.note(
                    f"{here.path}{flat} at the top is ignored: the class of {here.model_type} looks into {key} alone."
                )
            return _into(here, key, inner_type)
    if here.defaults.text_key is not None and not nested:
        return _unsaid(here, here.defaults.text_key)
    if here.parents and here.defaults.known:
        return here
    if nested:
        raise MissingField(
            f"{here.path}{nested[0]}.num_hidden_layers",
            cause=f"{here.path}{nested[0]} doesn't state its dimensions and its model type documents no defaults",
            hint="the language model's own config.json may sit in a sub-folder: pass that file",
        )
    raise MissingField(
        any_of(here.path + name for name in LAYER_COUNTS[:4]),
        cause="no layer count at the top level or in " + ", ".join(NESTED[:5]),
        hint="is this the config.json of a language model? an adapter, tokenizer or vision config has no KV cache",
    )


def _of_other_code(node: Mapping[str, Any]) -> bool:
    """Whether a config names its model's class, and one that transformers doesn't have: nor is its config's class there.

    LLaVA's own code calls its model LlavaLlamaForCausalLM and its type llava, and has all fields at the top.
    """
    names = class_names(node)
    return bool(names) and not any(of_architecture(name) for name in names)


def _unsaid(here: Fields, key: str) -> Fields:
    """A language model that a whole leaves out: its class's own.

    Raises: MissingField where its dimensions stand at the top, at which that class doesn't look, nor one of an older release.
    """
    flat = here.unread(*LAYER_COUNTS, *WIDTH, *HEADS)
    if flat is not None and here.defaults.flat_until is not None:
        return _flat_by_release(here, here.defaults.flat_until)
    text_type = here.defaults.nested_type(key)
    if flat is not None:
        alone = f', or "model_type": "{text_type}" if that is all there is' if text_type else ""
        raise MissingField(
            here.path + key,
            cause=f"{here.path}{flat} stands at the top, where the class of {here.model_type} doesn't look: it would build "
            "the language model of its own defaults",
            hint=f'move the language model\'s fields into "{key}": {{...}}{alone}',
        )
    inner = Fields({}, f"{here.path}{key}.", here.defaults.nested(key), here.ledger, (here.node, *here.parents))
    if inner.defaults.text_key is not None:
        return _unsaid(inner, inner.defaults.text_key)
    if "num_hidden_layers" not in inner.defaults.values:
        raise MissingField(here.path + key)
    return inner


def _flat(here: Fields) -> Fields:
    """A wrapper type whose text dimensions stand at the top takes its text class's defaults."""
    if "num_hidden_layers" in here.defaults.values:
        return here
    text = class_defaults(here.defaults.nested_type("text_config"))
    return replace(here, defaults=replace(text, model_type=here.model_type)) if text.known else here


def _flat_by_release(here: Fields, until: str) -> Fields:
    """As `_flat`, of a class that doesn't look at the top any more."""
    here.note(
        f"The language model's fields stand at the top, where the class of {here.model_type} looks up to transformers "
        f'{until}; a newer one builds its own defaults: move them into "text_config" to be read alike by all.'
    )
    return _flat(here)


def flat_type(fields: Fields) -> str | None:
    """The text model's type in a wrapper whose dimensions stand at its top: as stated, else as its class has it."""
    inner = (fields.node.get(key) for key in NESTED)
    stated = (
        node["model_type"] for node in inner if isinstance(node, Mapping) and isinstance(node.get("model_type"), str)
    )
    return next(stated, None) or class_defaults(fields.model_type).nested_type("text_config")


def _has_layers(node: Mapping[str, Any]) -> bool:
    return any(node.get(name) is not None for name in LAYER_COUNTS)


def refuse_encoder(fields: Fields) -> None:
    """Encoders keep no KV cache, nor does a text tower beside an image's or a sound's that it is compared with.

    Raises: Unsupported.
    """
    stated = (node.get("model_type") for node in fields.parents)
    for model_type in (*(each for each in stated if isinstance(each, str)), fields.model_type):
        if model_type in ENCODERS or is_encoder(model_type):
            raise Unsupported(
                f"{model_type} is an encoder: it keeps no KV cache",
                cause="it reads the whole input at once and generates nothing",
                hint="ask for the decoder that you want to serve",
            )


ENCODERS = frozenset((
    "bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert", "rembert", "roberta",
    "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta", "xlm-roberta-xl", "xmod",
    "jina_bert", "jina_clip", "new",
    "clap", "flava", "groupvit", "xclip",
))  # fmt: skip
"""Encoders beside those of class_defaults.json: types that transformers 5.23 also has a decoder's class for, which their
checkpoints aren't of; types of published code alone (gte-multilingual is "new"); two towers under no classifying class."""
