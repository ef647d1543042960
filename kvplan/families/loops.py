"""Stacks that are gone through more than once: the weights are shared, each pass keeps a cache of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kvplan.arch.layers import Attention, Cache, Layer
from kvplan.errors import BadField, MissingField
from kvplan.families import attention
from kvplan.families.fields import Fields

Passes = Callable[[Fields, tuple[Layer, ...]], tuple[Layer, ...]]


def passed(fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers of a stack, each with what all passes over it keep.

    Raises: MissingField, BadField.
    """
    law = LOOPED.get(fields.model_type)
    return layers if law is None else law(fields, layers)


def two_stacks(fields: Fields) -> tuple[Layer, ...]:
    """HRM-Text: a low and a high stack of num_layers_per_stack layers.

    A config that leaves that out states it as num_hidden_layers, which else holds the passes over both.
    Source: transformers 5.23 models/hrm_text/configuration_hrm_text.py; vLLM 0.33 models/hrm_text.py.

    Raises: MissingField, BadField.
    """
    each = fields.whole("num_layers_per_stack")
    count = fields.whole("num_hidden_layers")
    if each is None:
        own = fields.defaults.values["num_hidden_layers"]  # what the class is given, before it multiplies
        each = count or int(own)
    return (Layer((attention.heads(fields).attention(),)),) * (2 * each)


def _both_cycles(fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Each of H_cycles goes L_cycles times through the low stack, then once through the high one."""
    high, low = fields.need("H_cycles"), fields.need("L_cycles")
    half = len(layers) // 2
    return (*(_times(layer, high * low) for layer in layers[:half]), *(_times(layer, high) for layer in layers[half:]))


def _whole_stack(fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Ouro: total_ut_steps times through all layers, whenever a token leaves early.

    Source: ByteDance/Ouro-1.4B modeling_ouro.py UniversalTransformerCache; vLLM 0.11.1 to 0.26 models/ouro.py.
    """
    passes = _stated(fields, "total_ut_steps", 4, "ByteDance/Ouro-1.4B configuration_ouro.py")
    return tuple(_times(layer, passes) for layer in layers)


def _windowed_passes(fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """IQuest-Coder's loop: the first pass keeps all, each later one a window.

    Source: vLLM 0.33 models/iquest_loopcoder.py LoopCoderAttention.
    """
    passes = _stated(fields, "loop_num", 2, _LOOPCODER)
    window = _stated(fields, "loop_window_size", 64, _LOOPCODER)
    return tuple(replace(layer, caches=layer.caches + _windows(layer, window) * (passes - 1)) for layer in layers)


_LOOPCODER = "vLLM 0.33 models/iquest_loopcoder.py"


def _middle(fields: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Dory: n_recurrent_loops times through the layers between n_input_layers and n_output_layers.

    Under recurrent_kv_cache_mode last_loop each pass writes over the one before. Source: vLLM 0.33 models/dory.py,
    transformers_utils/configs/dory.py.
    """
    if fields.items("layer_types") is None:
        raise MissingField(f"{fields.path}layer_types", hint="add it with one entry a layer")
    for name in ("n_input_layers", "n_output_layers", "n_recurrent_loops", "recurrent_kv_cache_mode"):
        _refuse_null(fields, name, "the class's own default")
    first, last = fields.whole("n_input_layers", least=0) or 0, fields.whole("n_output_layers", least=0) or 0
    between = len(layers) - first - last
    stated = fields.whole("n_recurrent_layers", least=0)
    if stated not in (None, between) or between < 0:
        raise BadField(
            f"{fields.path}n_recurrent_layers",
            stated,
            f"the {len(layers)} layers less n_input_layers and n_output_layers",
        )
    passes, mode = fields.whole("n_recurrent_loops") or 1, fields.text("recurrent_kv_cache_mode")
    if mode not in (None, *CACHE_MODES):
        raise BadField(f"{fields.path}recurrent_kv_cache_mode", mode, " or ".join(CACHE_MODES))
    if mode == LAST:
        return layers
    looped = tuple(_times(layer, passes) for layer in layers[first : first + between])
    return (*layers[:first], *looped, *layers[first + between :])


LAST = "last_loop"
CACHE_MODES = ("per_loop", LAST)

LOOPED: Mapping[str, Passes] = {
    "dory": _middle,
    "hrm_text": _both_cycles,
    "iquestloopcoder": _windowed_passes,
    "ouro": _whole_stack,
}
"""How each type goes through its layers. A type that isn't here is refused where a field speaks of passes: see guard.py."""


def _stated(fields: Fields, name: str, default: int, source: str) -> int:
    """A field, or what the published code takes for one that is left out."""
    _refuse_null(fields, name, str(default))
    stated = fields.whole(name)
    if stated is None:
        fields.note_default(name, default, source)
    return stated or default


def _refuse_null(fields: Fields, name: str, default: str) -> None:
    """Raises: BadField where a config says null, for which the class has nothing."""
    if fields.stated_null(name):
        raise BadField(
            fields.path + name,
            None,
            "stated",
            cause="the class takes no default for a null",
            hint=f"leave it out, which is {default}",
        )


def _times(layer: Layer, passes: int) -> Layer:
    return replace(layer, caches=layer.caches * passes)


def _windows(layer: Layer, tokens: int) -> tuple[Cache, ...]:
    return tuple(replace(cache, window=tokens) if isinstance(cache, Attention) else cache for cache in layer.caches)
