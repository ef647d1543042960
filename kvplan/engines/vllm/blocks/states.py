"""Recurrent states: the format vLLM keeps each in, its bytes on a rank, and the formula in the same formats to compare with.

    convolutions and shifts   the model's 16-bit format
    recurrences               the same (mamba_ssm_cache_dtype "auto"), unless the class's rules say otherwise

Source: vLLM 0.33 model_executor/models/config.py, layers/mamba/mamba_utils.py MambaStateDtypeCalculator; older releases' same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from kvplan.arch.formats import FORMATS, Format
from kvplan.arch.layers import Cache, Layer, Recurrent, StateTensor
from kvplan.arch.model import Model
from kvplan.engines.vllm.blocks.backends import HOPPER
from kvplan.engines.vllm.blocks.cells import sixteen_bit
from kvplan.engines.vllm.blocks.place import Place
from kvplan.engines.vllm.tables.architectures import NO_CHECKPOINTS, classes, named
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version

ALWAYS_FP32 = ("kimi delta",)
"""Recurrences kept in 32 bit unless a flag says otherwise. Source: mamba_utils.py kda_state_dtype."""

FOLLOWS_CONFIG: dict[str, Version] = {
    **dict.fromkeys((
        "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration", "Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration", "ColQwen3_5",
        "D3ForSequenceClassification",
    ), (0, 17, 0)),
    "NemotronHForCausalLM": (0, 13, 0), "NemotronHPuzzleForCausalLM": (0, 13, 0), "NemotronH_Nano_VL_V2": (0, 18, 0),
}  # fmt: skip
"""Classes whose recurrence follows the config's own word on its format (mamba_ssm_dtype, mamba_ssm_cache_dtype), and since when."""

NEMOTRON = "NemotronH"
"""How the classes begin whose silence has a meaning of its own: rules.silent_state."""


def kept(cache: Recurrent, tensor: StateTensor, model: Model, rules: Rules) -> Format:
    """The format of one tensor of a state."""
    own = sixteen_bit(model.dtype)
    if tensor.role == "conv":
        return own
    if cache.law in ALWAYS_FP32:
        return FORMATS["fp32"]
    for name in classes(model):
        since = FOLLOWS_CONFIG.get(name)
        if since is not None and rules.version >= since:
            return tensor.stored or (FORMATS[rules.silent_state] if name.startswith(NEMOTRON) else own)
    return own


def in_kept_formats(model: Model, layers: tuple[Layer, ...], rules: Rules) -> tuple[Layer, ...]:
    """The same layers with every state in the format that vLLM keeps it in: what the formula is to be compared with.

    Layers that nothing changes in are the same objects.
    """
    made: dict[int, Layer] = {}
    for layer in layers:
        if id(layer) not in made:
            caches = tuple(_kept_cache(cache, model, rules) for cache in layer.caches)
            made[id(layer)] = layer if caches == layer.caches else Layer(caches, layer.shares_with)
    return tuple(made[id(layer)] for layer in layers)


def other_format(model: Model, rules: Rules) -> Format | None:
    """The format of the recurrences that vLLM keeps in another one than the formula; None where all are the same."""
    for cache, _ in model.distinct:
        if isinstance(cache, Recurrent):
            for tensor in cache.tensors:
                format_ = kept(cache, tensor, model, rules)
                if format_.bits != tensor.format(model.dtype).bits:
                    return format_
    return None


def _kept_cache(cache: Cache, model: Model, rules: Rules) -> Cache:
    if not isinstance(cache, Recurrent):
        return cache
    state = cache  # narrowed, for the comprehension
    return replace(
        state, tensors=tuple(replace(tensor, stored=kept(state, tensor, model, rules)) for tensor in state.tensors)
    )


NO_DRAFT_ROWS = ("mamba",)
"""Laws whose convolution keeps no rows for drafts. Source: layers/mamba/mamba_utils.py mamba1_state_shape."""

FLASHINFER_ONLY, FLASHINFER_KEY = ("gated delta net",), 128
"""Recurrences whose prefill exports a state only where FlashInfer runs it, and the size of the keys it runs everywhere."""


def state_bytes(cache: Recurrent, model: Model, place: Place) -> int:
    """Bytes of one layer's state on one rank; a convolution keeps a row more for each drafted token."""
    shard = place.settings.parallel.shard
    drafted = 0 if cache.law in NO_DRAFT_ROWS else place.settings.drafted
    return sum(
        _with_drafts(tensor, drafted).bytes(shard, kept(cache, tensor, model, place.rules)) for tensor in cache.tensors
    )


def _with_drafts(tensor: StateTensor, drafted: int) -> StateTensor:
    rows = tensor.rows + (drafted if tensor.role == "conv" else 0)
    return replace(tensor, rows=rows, stored=None, usual=None)


def checkpoint(cache: Recurrent, model: Model, place: Place) -> int | None:
    """Tokens between states that a prefill can hand out for prefix caching; None when it can't."""
    if named(model, NO_CHECKPOINTS) or (cache.law in FLASHINFER_ONLY and not _runs_flashinfer(cache, place)):
        return None
    return dict(place.rules.checkpoints).get(cache.law)


def _runs_flashinfer(cache: Recurrent, place: Place) -> bool:
    """Whether FlashInfer runs a gated delta net's prompts: on Hopper any, on Blackwell keys of 128, on other platforms none.

    Source: vLLM 0.33 layers/mamba/gdn/qwen_gdn_linear_attn.py. A convolution's first width is a query and a key.
    """
    return place.on_cuda and (
        place.gpu[0] == HOPPER[0] or (place.gpu > HOPPER and cache.tensors[0].widths[0][1] == 2 * FLASHINFER_KEY)
    )


def checkpoint_alignment(states: Sequence[Recurrent], model: Model, place: Place) -> int:
    """Tokens that blocks must be a multiple of, so that every state can be handed out at their ends."""
    found = [checkpoint(state, model, place) for state in states]
    return lcm(*(each for each in found if each)) if all(found) else 1
