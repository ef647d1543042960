"""Tokens of a block, as vLLM settles them once the model is built: by kernels, by states, by what was asked for.

Source: vLLM 0.33 platforms/interface.py, v1/attention/selector.py, model_executor/models/config.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm

from kvplan.arch.layers import Attention, Cache, Compressed, CrossAttention, Latent, Layer
from kvplan.arch.model import Model
from kvplan.engines.vllm.blocks import cells
from kvplan.engines.vllm.blocks.backend import Backend
from kvplan.engines.vllm.blocks.backends import DEFAULT_BLOCK, Need, common_block, kernel_block, pick
from kvplan.engines.vllm.blocks.built import is_state
from kvplan.engines.vllm.blocks.place import Blocks, Place, stages
from kvplan.engines.vllm.blocks.specs import aligned
from kvplan.engines.vllm.blocks.states import checkpoint_alignment, state_bytes
from kvplan.engines.vllm.blocks.xpu import BY_BACKEND, XPU
from kvplan.engines.vllm.tables.architectures import LEARNED_SINKS, image_prefix, named
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import Unsupported, WontStart


def block_sizes(model: Model, layers: Sequence[Layer], place: Place, least: int = 1) -> Blocks:
    """Block sizes as vLLM settles them once the model is built, of `least` tokens or more.

    Raises: UsageError.
    """
    same = {id(layer): layer for layer in layers}
    caches = list(dict.fromkeys(cache for layer in same.values() for cache in layer.caches))
    by_cache = {cache: tuple(backends_of(cache, model, place)) for cache in caches}
    backends = list(dict.fromkeys(backend for found in by_cache.values() for backend in found))
    _check_layouts(model, layers, by_cache, place)
    block = place.settings.block or (common_block(backends) if backends else DEFAULT_BLOCK)
    block = max(block, least)
    if any(isinstance(cache, Latent) and cache.topk is None for cache in caches):
        block = aligned(block, dict(place.rules.latent_blocks).get(place.gpu[0], 1) if place.on_cuda else 1)
    if any(is_state(cache) for cache in caches):
        return _beside_states(block, caches, backends, model, place)
    return Blocks(block, block, None)


AGREED: Version = (0, 29, 0)
"""The first release whose ranks must all support the same layouts of the cache. Source: attention/backends/utils.py resolve_kv_cache_layout."""


def _check_layouts(
    model: Model, layers: Sequence[Layer], backends: Mapping[Cache, Sequence[Backend]], place: Place
) -> None:
    """Raises: WontStart for pipeline stages of which only some have layers whose kernels read an order of their own."""
    if place.settings.parallel.pp == 1 or place.rules.version < AGREED:
        return
    own = {
        cache
        for cache, found in backends.items()
        if any(backend.own_layout for backend in found) and not (isinstance(cache, Attention) and cache.indexer)
    }  # attention in blocks is run by kernels of its own alone
    stage_of = stages(model, place.settings)
    everywhere = {stage_of(index) for index in range(len(layers))}
    having = {stage_of(index) for index, layer in enumerate(layers) if not own.isdisjoint(layer.caches)}
    if having and having != everywhere:
        raise WontStart(
            f"vLLM doesn't start {model.origin.id} in {place.settings.parallel.pp} pipeline stages on this GPU",
            cause="Workers disagree on supported KV cache layouts: stages have kernels with layouts of their own, and stages without",
            hint="--pp 1 and more tensor ranks, or fewer stages",
        )


def _beside_states(
    block: int, caches: Sequence[Cache], backends: Sequence[Backend], model: Model, place: Place
) -> Blocks:
    """Attention's `block` made large enough for a page to hold the largest state; as it is where there is none of either.

    Raises: Unsupported on Intel's GPUs before their blocks were settled like others'.
    """
    if place.platform is XPU and place.rules.version < BY_BACKEND:
        raise Unsupported(
            f"kvplan has no rules for {model.origin.id} in vLLM {text(place.rules.version)} on Intel's GPUs",
            cause=f"how blocks beside recurrent states were settled there before {text(BY_BACKEND)} wasn't read",
            hint=f"--engine vllm@{text(BY_BACKEND)} or later, or --engine ideal",
        )
    states = [cache for cache in caches if is_state(cache)]
    page = max(state_bytes(state, model, place) for state in states)
    token, latent = _attention_token(caches, place)
    if token is None or page == 0:
        return Blocks(block, block if place.settings.aligned else place.settings.length, None)
    smallest = max(min(backends[0].sizes), block, place.rules.latent_state_block if latent else 1)
    if place.settings.aligned:
        smallest = lcm(smallest, checkpoint_alignment(states, model, place))
    needed = smallest * -(-page // (smallest * token))
    block = max(block, aligned(needed, kernel_block(backends)))
    padded = block * token > page
    if place.platform is XPU and any(cache.law in DELTA_LAWS for cache in states):
        block = aligned(block, place.rules.intel_delta_block)
    return Blocks(block, block if place.settings.aligned else place.settings.length, block * token if padded else None)


DELTA_LAWS = ("gated delta net", "kimi delta")
"""Recurrences whose kernel for Intel's GPUs wants blocks of its own. Source: platforms/xpu.py update_block_size_for_backend."""


def without_attention(model: Model, layers: Sequence[Layer], place: Place) -> frozenset[int]:
    """Layers on stages that hold states and no attention."""
    if place.settings.parallel.pp == 1 or not place.rules.stages_settle:
        return frozenset()
    stage_of = stages(model, place.settings)
    settled = {
        stage_of(index) for index, layer in enumerate(layers) if any(not is_state(cache) for cache in layer.caches)
    }
    return frozenset(index for index in range(len(layers)) if stage_of(index) not in settled)


def unsettled(place: Place) -> Blocks:
    """A stage without attention has no backend that would settle its blocks, and leaves them as they were.

    Source: vLLM platforms/interface.py update_block_size_for_backend, which each worker asks of its own layers.
    """
    block = place.settings.block or DEFAULT_BLOCK
    return Blocks(block, block if place.settings.aligned else place.settings.length, None)


def _attention_token(caches: Sequence[Cache], place: Place) -> tuple[int | None, bool]:
    """Bytes of one token in one attention layer, and whether it is a latent; None without attention."""
    for cache in caches:
        if isinstance(cache, Latent):
            return cells.latent_row(place.kv, cache.rank + cache.rope_dim), True
        if isinstance(cache, Attention):
            heads = place.settings.parallel.shard.units(cache.kv_heads, "KV heads")
            return heads * cells.pair(place.kv, cache.k_dim, cache.k_dim), False
    return None, False


def backends_of(cache: Cache, model: Model, place: Place) -> Iterator[Backend]:
    """Backends of one layer, in the order vLLM registers them; state layers have none that matter.

    A block size that was asked for decides among attention backends; side caches take what they are given.

    Raises: UsageError.
    """
    asked, name = place.settings.block, cells.cache_name(place.kv)
    dcp = place.settings.parallel.dcp > 1
    if isinstance(cache, Attention | CrossAttention):
        uneven = isinstance(cache, Attention) and cache.k_dim != cache.v_dim
        table = "uneven attention" if uneven else "attention"
        yield pick(table, need_of(cache, model, place, _largest_dim(model, cache)), place.gpu, asked, place.platform)
        if isinstance(cache, Attention) and cache.indexer is not None:
            yield pick("block sparse", Need(cache.k_dim, name), place.gpu, None, place.platform)
    elif isinstance(cache, Latent):
        dim = cache.rank + cache.rope_dim
        table = "latent" if cache.topk is None else "sparse latent"
        yield pick(
            table,
            Need(
                dim,
                name,
                nope_dim=cache.nope_dim,
                dcp=dcp,
                heads=_queries(cache, place),
                aiter=place.settings.aiter,
                release=place.rules.version,
            ),
            place.gpu,
            asked,
            place.platform,
        )
        if cache.topk is not None:
            yield pick("indexer", Need(dim, "index"), place.gpu, None, place.platform)
    elif isinstance(cache, Compressed):
        yield pick("compressed", Need(cache.dim, name), place.gpu, None, place.platform)


def need_of(cache: Attention | CrossAttention, model: Model, place: Place, dim: int) -> Need:
    """What a layer asks of a backend that runs heads of `dim` numbers."""
    grouped = cache.heads is not None and cache.heads // cache.kv_heads > 1
    dcp = place.settings.parallel.dcp > 1
    plain = isinstance(cache, Attention) and cache.cap is None
    return Need(
        dim,
        cells.cache_name(place.kv),
        image_prefix(model, place.rules),
        dcp=dcp,
        grouped=grouped,
        plain=plain,
        even=cache.k_dim == cache.v_dim,
        sinks=named(model, LEARNED_SINKS),
        mixed_dims=len(_dims(model)) > 1,
        aiter=place.settings.aiter,
        connected=place.settings.connected,
        release=place.rules.version,
    )


def _queries(cache: Latent, place: Place) -> int | None:
    """Query heads of a latent layer on one rank, where they are stated."""
    return None if cache.heads is None else cache.heads // place.settings.parallel.tp


def _largest_dim(model: Model, own: Attention | CrossAttention) -> int:
    """Where head sizes differ, vLLM chooses kernels for the largest. Source: config/model_arch.py from_layers.

    own: the layer itself, which counts alone where it drafts for a model without such heads.
    """
    return max(_dims(model), default=own.k_dim)


def _dims(model: Model) -> set[int]:
    """Sizes of a model's keys."""
    return {cache.k_dim for cache, _ in model.distinct if isinstance(cache, Attention | CrossAttention)}
