"""Parallel sizes that vLLM doesn't split a model by.

Source: vLLM 0.33 config/model.py verify_with_parallel_config.
"""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate

from kvplan.arch.layers import Attention, Latent, Recurrent
from kvplan.arch.model import Model
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.architectures import ONE_RANK, SHARES_CACHE, classes, named
from kvplan.engines.vllm.tables.interfaces import UNPIPELINED
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.taken import has, taken
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import CannotSplit, NotSplit
from kvplan.text import plural


def check(model: Model, settings: Settings, rules: Rules) -> None:
    """What refuses the parallel sizes.

    Raises: CannotSplit; NotSplit where it is vLLM alone that can't.
    """
    _experts(model, settings)
    _heads(model, settings)
    _one_rank(model, settings)
    _pipeline(model, settings, rules.version)
    _sharing(model, settings)
    _context_parallel(model, settings)


def _heads(model: Model, settings: Settings) -> None:
    tp = settings.parallel.tp
    for heads in {*model.query_heads, *([model.attention_heads] if model.attention_heads else ())}:
        if heads % tp:
            raise NotSplit(
                f"vLLM can't split {model.origin.id} by --tp {tp}",
                cause=f"Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tp})",
                hint="use a size that divides the heads",
            )
    for cache, _ in model.distinct:
        if isinstance(cache, Recurrent):
            _state_groups(cache, settings)


def _state_groups(cache: Recurrent, settings: Settings) -> None:
    """A Mamba-2 group is dealt whole or, when there is only one, copied. Source: layers/mamba/mamba_mixer2.py."""
    tp = settings.parallel.tp
    groups = cache.tensors[0].widths[-1][0]
    if cache.law == "mamba2" and groups % tp and groups > 1:
        raise NotSplit(
            f"--tp {tp} can't split {groups} state groups",
            cause="If tensor parallel world size does not divide num_groups, then num_groups must equal 1",
            hint=f"use a size that divides {groups}",
        )
    for tensor in cache.tensors:
        tensor.elements(settings.parallel.shard)


def _pipeline(model: Model, settings: Settings, release: Version) -> None:
    if settings.parallel.pp > 1 and has(taken(model, release), UNPIPELINED, release):
        raise NotSplit(
            f"vLLM {text(release)} can't split {model.origin.id} by --pp {settings.parallel.pp}",
            cause="Pipeline parallelism is not supported for this model",
            hint="--pp 1",
        )


def _one_rank(model: Model, settings: Settings) -> None:
    """Source: vLLM 0.33 models/dory.py."""
    if settings.parallel.tp > 1 and named(model, ONE_RANK):
        raise NotSplit(
            f"vLLM can't split {model.origin.id} by --tp {settings.parallel.tp}",
            cause="Dory currently supports tensor_parallel_size=1 only",
            hint="--tp 1",
        )


def _sharing(model: Model, settings: Settings) -> None:
    """A layer can only read a cache of its own stage. Source: layers/attention/attention.py validate_kv_sharing_target."""
    if settings.parallel.pp == 1 or not any(name.startswith(SHARES_CACHE) for name in classes(model)):
        return
    ends = list(accumulate(len(stage) for stage in model.stages(settings.parallel)))
    for index, layer in enumerate(model.layers):
        source = layer.shares_with
        if source is not None and bisect(ends, source) != bisect(ends, index):
            raise NotSplit(
                f"vLLM can't split {model.origin.id} by --pp {settings.parallel.pp}",
                cause=f"layer {index} reads the cache of layer {source}, which is on another stage",
                hint="--pp 1",
            )


def _context_parallel(model: Model, settings: Settings) -> None:
    """Decode context parallelism needs latents, or more ranks than KV heads."""
    tp, dcp = settings.parallel.tp, settings.parallel.dcp
    if dcp == 1:
        return
    for cache, _ in model.distinct:
        if isinstance(cache, Attention) and cache.cap is not None:
            raise CannotSplit(
                f"--dcp {dcp} can't deal out a window", cause="vLLM keeps windows whole on every rank", hint="--dcp 1"
            )
        if isinstance(cache, Latent) or not isinstance(cache, Attention):
            continue
        most = tp // cache.kv_heads
        group = (cache.heads or cache.kv_heads) // cache.kv_heads
        if tp <= cache.kv_heads or dcp > most or group % dcp:
            raise NotSplit(
                f"--dcp {dcp} can't be laid over --tp {tp}",
                cause=f"with {cache.kv_heads} KV heads vLLM deals tokens over at most {plural(max(most, 1), 'rank')}, a divisor of "
                f"the {group} query heads of each",
                hint="--dcp 1",
            )


def _experts(model: Model, settings: Settings) -> None:
    """Source: config/model.py _verify_with_expert_parallelism; vLLM 0.8 to 0.33 have the same words."""
    if settings.parallel.ep > 1 and lacks_experts(model):
        raise NotSplit(
            f"vLLM can't deal out the experts of {model.origin.id}: it has none",
            cause="Number of experts in the model must be greater than 0 when expert parallelism is enabled",
            hint="leave --ep out",
        )


def lacks_experts(model: Model) -> bool:
    """Whether the model is known to have no experts that tokens are routed to."""
    return model.weights is not None and not model.weights.routes
