"""From a model's layers to the specs vLLM would register, in layer order.

Source: get_kv_cache_spec of vLLM 0.33's attention, MLA, state, indexer and compressor layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import TypeGuard

from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import (
    Attention,
    Cache,
    Compressed,
    CrossAttention,
    Indexer,
    Latent,
    Layer,
    Recurrent,
    StateTensor,
)
from kvplan.arch.model import Model
from kvplan.engines.vllm import cells
from kvplan.engines.vllm.architectures import (
    ALTERNATES,
    EXPANDED_LATENT,
    LEARNED_SINKS,
    NO_CHECKPOINTS,
    OWN_FORMAT,
    PAGED_STREAMS,
    SHARES_CACHE,
    image_prefix,
    named,
    wider_window,
)
from kvplan.engines.vllm.backends import (
    BLACKWELL,
    DEFAULT_BLOCK,
    HOPPER,
    Backend,
    Capability,
    Need,
    common_block,
    kernel_block,
    largest_within,
    pick,
)
from kvplan.engines.vllm.drafts import draft_layers
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.specs import Kind, Spec, aligned
from kvplan.engines.vllm.states import kept
from kvplan.engines.vllm.versions import Rules
from kvplan.errors import CannotSplit, UsageError

COMPRESSOR_BLOCKS = {4: 4, 128: 8}
COMPRESSED_WINDOW_BLOCK = 64

NO_DRAFT_ROWS = ("mamba",)
"""Laws whose convolution keeps no rows for drafts. Source: layers/mamba/mamba_utils.py mamba1_state_shape."""

PAGED = "convolution in pages"
"""Law of convolutions whose last inputs are kept as windows are."""

BOUNDARY_LAYERS = 2

MIXED_BLOCK = 32
"""Blocks of packed layers that stand beside 16-bit ones. Source: platforms/interface.py _align_heterogeneous_kv_block_size."""

FLASHINFER_ONLY, FLASHINFER_KEY = ("gated delta net",), 128
"""Recurrences whose prefill exports a state only where FlashInfer runs it, and the size of the keys it runs everywhere."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the layers are to live: everything but the model."""

    settings: Settings
    rules: Rules
    kv: KvFormat
    gpu: Capability


@dataclass(frozen=True, slots=True)
class Blocks:
    """Tokens of a block of attention layers; of state layers; the page that state is padded to, if any."""

    attention: int
    state: int
    state_page: int | None


def layer_specs(model: Model, place: Place) -> list[tuple[Spec, ...]]:
    """The specs of every layer, draft layers behind the model's own.

    Raises: UsageError, CannotSplit.
    """
    model = as_served(model)
    skipped = _kept_whole(model, place)
    if named(model, OWN_FORMAT):
        place = replace(place, kv=_own_format(model))
    layers = [*model.layers, *(draft_layers(model) if place.settings.drafted else ())]
    blocks = block_sizes(model, layers, place, MIXED_BLOCK if skipped else 1)
    unsettled = _unsettled(place)
    alone = _without_attention(model, layers, place)
    whole = replace(place, kv=_own_format(model))
    made: dict[tuple[int, bool, bool], tuple[Spec, ...]] = {}
    found = []
    for index, layer in enumerate(layers):
        specs: list[Spec] = []
        for cache in layer.caches:
            # equal caches are mostly one object; hashing them takes longer
            key = id(cache), index in skipped, index in alone
            if key not in made:
                settled = unsettled if key[2] else blocks
                made[key] = tuple(MAKERS[type(cache)](cache, model, whole if key[1] else place, settled))
            specs += made[key]
        found.append(tuple(specs))
    return found


def _own_format(model: Model) -> KvFormat:
    own = cells.sixteen_bit(model.dtype)
    return KvFormat(own, own)


def _kept_whole(model: Model, place: Place) -> frozenset[int]:
    """Layers that stay in 16 bit: the first two and the last two under TurboQuant, unless states stand beside them.

    Raises: UsageError on data center Blackwell, where the two kinds have no layout in common.

    Source: vLLM 0.33 layers/quantization/turboquant/config.py get_boundary_skip_layers, attention/backends/utils.py
    resolve_kv_cache_layout.
    """
    if cells.cache_name(place.kv) != "turboquant" or any(_is_state(cache) for cache, _ in model.distinct):
        return frozenset()
    count = len(model.layers)
    ends = min(BOUNDARY_LAYERS, count // 2)
    if ends and place.gpu[0] == BLACKWELL:
        raise UsageError(
            "vLLM finds no layout for a TurboQuant cache on this GPU",
            cause="the first and the last layers stay in 16 bit, and FlashInfer's layout of them isn't TurboQuant's",
            hint="--kv-dtype fp8, or auto",
        )
    return frozenset((*range(ends), *range(count - ends, count)))


def _is_state(cache: Cache) -> TypeGuard[Recurrent]:
    return isinstance(cache, Recurrent) and cache.law != PAGED


def as_served(model: Model) -> Model:
    """The model as vLLM's own classes build it: wider windows, latents cached as heads, caches not shared."""
    if named(model, ALTERNATES):
        model = _alternating(model)
    streams, indexed = named(model, PAGED_STREAMS), _shared_indexer(model)
    extra, expanded = wider_window(model), named(model, EXPANDED_LATENT)
    shared = any(layer.shares_with is not None for layer in model.layers)
    if shared and not any(name.startswith(SHARES_CACHE) for name in model.architectures):
        model = replace(model, layers=tuple(_own_cache(model, layer) for layer in model.layers))
    if not extra and not expanded and not streams and indexed is None:
        return model

    def served(cache: Cache) -> Cache:
        if isinstance(cache, Attention) and cache.window is not None:
            return replace(cache, window=cache.window + extra)
        if isinstance(cache, Recurrent) and streams:
            return replace(cache, law=PAGED)
        if isinstance(cache, Latent) and cache.topk is not None and cache.indexer is None and indexed is not None:
            return replace(cache, indexer=indexed)
        if isinstance(cache, Latent) and expanded:
            heads, dim = cache.heads or 1, (cache.nope_dim or 0) + cache.rope_dim
            return Attention(heads, heads, dim, dim)
        return cache

    layers = tuple(replace(layer, caches=tuple(served(cache) for cache in layer.caches)) for layer in model.layers)
    return replace(model, layers=layers)


def _shared_indexer(model: Model) -> Indexer | None:
    """The indexer that every sparse latent has here though the config lets some reuse an earlier layer's choice."""
    if "listed_indexers" not in model.traits:
        return None
    caches = (cache for cache, _ in model.distinct if isinstance(cache, Latent))
    return next((cache.indexer for cache in caches if cache.indexer is not None), None)


def _alternating(model: Model) -> Model:
    """Windows on every other layer from the first, whatever the config's list of layers says."""
    kinds = [
        next((layer for layer in model.layers if (layer.caches[0].kind == "sliding") is windowed), None)
        for windowed in (True, False)
    ]
    first, second = kinds
    if first is None or second is None:
        return model
    return replace(model, layers=tuple(second if index % 2 else first for index in range(len(model.layers))))


def _own_cache(model: Model, layer: Layer) -> Layer:
    while layer.shares_with is not None:
        layer = model.layers[layer.shares_with]
    return layer


# Block sizes


def block_sizes(model: Model, layers: Sequence[Layer], place: Place, least: int = 1) -> Blocks:
    """Block sizes as vLLM settles them once the model is built, of `least` tokens or more.

    Raises: UsageError.
    """
    same = {id(layer): layer for layer in layers}
    caches = list(dict.fromkeys(cache for layer in same.values() for cache in layer.caches))
    backends = list(dict.fromkeys(backend for cache in caches for backend in backends_of(cache, model, place)))
    states = [cache for cache in caches if _is_state(cache)]
    asked = place.settings.block
    block = asked or (common_block(backends) if backends else DEFAULT_BLOCK)
    block = max(block, least)
    if any(isinstance(cache, Latent) and cache.topk is None for cache in caches):
        block = aligned(block, dict(place.rules.latent_blocks).get(place.gpu[0], 1))
    if not states:
        return Blocks(block, block, None)
    page = max(state_bytes(state, model, place) for state in states)
    token, latent = _attention_token(caches, place)
    if token is None or page == 0:
        return Blocks(block, block if place.settings.aligned else place.settings.length, None)
    smallest = max(min(backends[0].sizes), block)
    if latent:
        smallest = max(smallest, place.rules.latent_state_block)
    if place.settings.aligned:
        smallest = lcm(smallest, _checkpoint_alignment(states, model, place))
    needed = smallest * -(-page // (smallest * token))
    block = max(block, aligned(needed, kernel_block(backends)))
    padded = block * token
    return Blocks(block, block if place.settings.aligned else place.settings.length, padded if padded > page else None)


def stages(model: Model, settings: Settings) -> Callable[[int], int]:
    """Which stage holds a layer; draft layers are on the last."""
    sizes = [len(stage) for stage in model.stages(settings.parallel)]
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return lambda layer: next((stage for stage, end in enumerate(ends) if layer < end), len(sizes) - 1)


def _without_attention(model: Model, layers: Sequence[Layer], place: Place) -> frozenset[int]:
    """Layers on stages that hold states and no attention."""
    if place.settings.parallel.pp == 1 or not place.rules.stages_settle:
        return frozenset()
    stage_of = stages(model, place.settings)
    settled = {
        stage_of(index) for index, layer in enumerate(layers) if any(not _is_state(cache) for cache in layer.caches)
    }
    return frozenset(index for index in range(len(layers)) if stage_of(index) not in settled)


def _unsettled(place: Place) -> Blocks:
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
        yield pick(table, _need(cache, model, place, _largest_dim(model)), place.gpu, asked)
        if isinstance(cache, Attention) and cache.indexer is not None:
            yield pick("block sparse", Need(cache.k_dim, name), place.gpu, None)
    elif isinstance(cache, Latent):
        dim = cache.rank + cache.rope_dim
        table = "latent" if cache.topk is None else "sparse latent"
        yield pick(
            table, Need(dim, name, nope_dim=cache.nope_dim, dcp=dcp, release=place.rules.version), place.gpu, asked
        )
        if cache.topk is not None:
            yield pick("indexer", Need(dim, "index"), place.gpu, None)
    elif isinstance(cache, Compressed):
        yield pick("compressed", Need(cache.dim, name), place.gpu, None)


def _need(cache: Attention | CrossAttention, model: Model, place: Place, dim: int) -> Need:
    grouped = cache.heads is not None and cache.heads // cache.kv_heads > 1
    dcp = place.settings.parallel.dcp > 1
    plain = isinstance(cache, Attention) and cache.cap is None
    return Need(
        dim,
        cells.cache_name(place.kv),
        image_prefix(model),
        dcp=dcp,
        grouped=grouped,
        plain=plain,
        even=cache.k_dim == cache.v_dim,
        sinks=named(model, LEARNED_SINKS),
        release=place.rules.version,
    )


def _largest_dim(model: Model) -> int:
    """Where head sizes differ, vLLM chooses kernels for the largest. Source: config/model_arch.py from_layers."""
    return max(cache.k_dim for cache, _ in model.distinct if isinstance(cache, Attention | CrossAttention))


# Recurrent state


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


def _checkpoint(cache: Recurrent, model: Model, place: Place) -> int | None:
    """Tokens between states that a prefill can hand out for prefix caching; None when it can't."""
    if named(model, NO_CHECKPOINTS) or (cache.law in FLASHINFER_ONLY and not _runs_flashinfer(cache, place)):
        return None
    return dict(place.rules.checkpoints).get(cache.law)


def _runs_flashinfer(cache: Recurrent, place: Place) -> bool:
    """Whether FlashInfer runs a gated delta net's prompts: on Hopper any, on Blackwell keys of 128.

    Source: vLLM 0.33 layers/mamba/gdn/qwen_gdn_linear_attn.py. A convolution's first width is a query and a key.
    """
    return place.gpu[0] == HOPPER[0] or (place.gpu > HOPPER and cache.tensors[0].widths[0][1] == 2 * FLASHINFER_KEY)


def _checkpoint_alignment(states: Sequence[Recurrent], model: Model, place: Place) -> int:
    found = [_checkpoint(state, model, place) for state in states]
    return lcm(*(each for each in found if each)) if all(found) else 1


# Specs


def _attention(cache: Attention, model: Model, place: Place, blocks: Blocks) -> Iterator[Spec]:
    heads = place.settings.parallel.shard.units(cache.kv_heads, "KV heads")
    token = heads * cells.pair(place.kv, cache.k_dim, cache.v_dim)
    identity = (heads, cache.k_dim, cache.v_dim, place.kv)
    if cache.window is not None:
        block = _window_block(cache, model, place, blocks.attention)
        extra = place.settings.drafted - 1 if place.settings.drafted and len(model.draft_layers) > 1 else 0
        yield Spec("sliding", block, token * block, token * block, identity, cache.window, extra=extra)
        return
    kind: Kind = "full" if cache.chunk is None else "chunked"
    block = blocks.attention
    yield Spec(kind, block, token * block, token * block, identity, cache.chunk)
    if cache.indexer is not None:
        index = cache.indexer.stored.row_bytes(cache.indexer.dim) * block
        yield Spec("indexer", block, index, index, cache.indexer)


def _window_block(cache: Attention, model: Model, place: Place, block: int) -> int:
    """A window layer takes the largest block its own kernels run unsplit."""
    if not place.rules.window_blocks:
        return block
    need = _need(cache, model, place, cache.k_dim)
    return largest_within(pick("attention", need, place.gpu, place.settings.block), block)


def _cross(cache: CrossAttention, model: Model, place: Place, blocks: Blocks) -> Iterator[Spec]:
    del model
    heads = place.settings.parallel.shard.units(cache.kv_heads, "KV heads")
    size = heads * cells.pair(place.kv, cache.k_dim, cache.v_dim) * blocks.attention
    yield Spec("cross", blocks.attention, size, size, (heads, cache.k_dim, cache.v_dim, place.kv))


def _latent(cache: Latent, model: Model, place: Place, blocks: Blocks) -> Iterator[Spec]:
    backend = next(backends_of(cache, model, place))
    packed = cells.PACKED.get((backend.name, cells.cache_name(place.kv)), place.kv.k)
    size = packed.row_bytes(cache.rank + cache.rope_dim) * blocks.attention
    yield Spec(
        "latent", blocks.attention, size, size, (cache.rank + cache.rope_dim, place.kv, cache.indexer is not None)
    )
    if cache.indexer is not None:
        index = cache.indexer.stored.row_bytes(cache.indexer.dim) * blocks.attention
        yield Spec("indexer", blocks.attention, index, index, cache.indexer)


def _stream(cache: Recurrent, place: Place) -> Iterator[Spec]:
    """Inputs of a layer's convolutions: one window as long as the kernel, in blocks as long, a row for each KV head.

    A row holds a key, a value and the head's share of both sublayers' outputs, in a power of two of 16-bit numbers.
    Source: vLLM 0.33 models/inkling/nvidia/sconv_swa_attn.py InklingConvState.
    """
    per_head, whole = cache.tensors
    (count, pair), (_, outputs) = per_head.widths[0], whole.widths[0]
    tp, kernel = place.settings.parallel.tp, per_head.rows + 1
    if tp > count:
        raise CannotSplit(
            f"vLLM can't split the convolutions by --tp {tp}",
            cause=f"sconv SWA cache supports tp_size <= num_kv_heads ({count}), got {tp}",
            hint=f"--tp {count} or less",
        )
    row = 1 << (pair + outputs // count - 1).bit_length()
    page = kernel * place.settings.parallel.shard.units(count, "KV heads") * row * BYTES_OF_16_BITS
    yield Spec("sliding", kernel, page, page, (PAGED, count, row), kernel)


BYTES_OF_16_BITS = 2


def _state(cache: Recurrent, model: Model, place: Place, blocks: Blocks) -> Iterator[Spec]:
    if cache.law == PAGED:
        yield from _stream(cache, place)
        return
    size = state_bytes(cache, model, place)
    held = 1 + place.settings.drafted
    if place.settings.aligned:
        held += 1 + (_checkpoint(cache, model, place) is not None)
    page = blocks.state_page or size
    yield Spec("state", blocks.state, size, page, cache.tensors, held=held)


def _compressed(cache: Compressed, model: Model, place: Place, blocks: Blocks) -> Iterator[Spec]:
    """A window of raw latents, compressed latents, their indexer's keys, and the compressors' windows of fp32 sums."""
    del model, place
    row, edge = cells.COMPRESSED_ROW, cells.COMPRESSED_ALIGNMENT
    window = row * COMPRESSED_WINDOW_BLOCK
    yield Spec(
        "sliding_latent", COMPRESSED_WINDOW_BLOCK, window, aligned(window, edge), "window", cache.window, alignment=edge
    )
    if cache.ratio is None:
        return
    states = blocks.attention // cache.ratio
    if not states:
        raise UsageError(
            f"--block-size {blocks.attention} holds no entry of {cache.ratio} tokens",
            cause="compressed attention needs blocks of whole entries",
            hint="leave --block-size out",
        )
    yield Spec("latent", blocks.attention, states * row, aligned(states * row, edge), cache.ratio, alignment=edge)
    yield _compressor(cache.dim, cache.ratio, overlap=cache.indexer is not None)
    if cache.indexer is not None:
        keys = states * cache.indexer.stored.row_bytes(cache.indexer.dim)
        yield Spec("indexer", blocks.attention, keys, aligned(keys, edge), cache.indexer, alignment=edge)
        yield _compressor(cache.indexer.dim, cache.ratio, overlap=True)


def _compressor(dim: int, ratio: int, *, overlap: bool) -> Spec:
    """Sums of keys and scores in fp32 over one ratio of tokens, two where neighbours overlap."""
    twice = 2 if overlap else 1
    block = COMPRESSOR_BLOCKS[ratio]
    size = 2 * twice * dim * 4 * block
    edge = cells.COMPRESSED_ALIGNMENT
    return Spec("sliding_latent", block, size, aligned(size, edge), ("compressor", dim), twice * ratio, alignment=edge)


Maker = Callable[..., Iterator[Spec]]

MAKERS: dict[type, Maker] = {
    Attention: _attention,
    CrossAttention: _cross,
    Latent: _latent,
    Recurrent: _state,
    Compressed: _compressed,
}
