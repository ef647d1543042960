"""From a model's layers to the specs vLLM would register, in layer order.

Source: get_kv_cache_spec of vLLM 0.33's attention, MLA, state, indexer and compressor layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import Attention, Compressed, CrossAttention, Latent, Recurrent
from kvplan.arch.model import Model
from kvplan.engines.vllm.blocks import cells
from kvplan.engines.vllm.blocks.backends import BLACKWELL, largest_within, pick
from kvplan.engines.vllm.blocks.built import PAGED, as_served, cache_window, is_state
from kvplan.engines.vllm.blocks.drafts import draft_layers
from kvplan.engines.vllm.blocks.place import Blocks, Place
from kvplan.engines.vllm.blocks.sizes import backends_of, block_sizes, need_of, unsettled, without_attention
from kvplan.engines.vllm.blocks.specs import Kind, Spec, aligned
from kvplan.engines.vllm.blocks.states import checkpoint, state_bytes
from kvplan.engines.vllm.tables.architectures import OWN_FORMAT, named
from kvplan.errors import CannotSplit, UsageError

COMPRESSOR_BLOCKS = {4: 4, 128: 8}
COMPRESSED_WINDOW_BLOCK = 64
BOUNDARY_LAYERS = 2

MIXED_BLOCK = 32
"""Blocks of packed layers that stand beside 16-bit ones. Source: platforms/interface.py _align_heterogeneous_kv_block_size."""


def layer_specs(model: Model, place: Place) -> list[tuple[Spec, ...]]:
    """The specs of every layer, draft layers behind the model's own.

    Raises: UsageError, CannotSplit.
    """
    model = as_served(model, place.rules, cache_window(model, place.rules))
    skipped = _kept_whole(model, place)
    if named(model, OWN_FORMAT):
        place = replace(place, kv=_own_format(model))
    layers = [*model.layers, *(draft_layers(model, place.rules) if place.settings.drafted else ())]
    blocks = block_sizes(model, layers, place, MIXED_BLOCK if skipped else 1)
    left = unsettled(place)
    alone = without_attention(model, layers, place)
    whole = replace(place, kv=_own_format(model))
    made: dict[tuple[int, bool, bool], tuple[Spec, ...]] = {}
    found = []
    for index, layer in enumerate(layers):
        specs: list[Spec] = []
        for cache in layer.caches:
            # equal caches are mostly one object; hashing them takes longer
            key = id(cache), index in skipped, index in alone
            if key not in made:
                settled = left if key[2] else blocks
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
    if cells.cache_name(place.kv) != "turboquant" or any(is_state(cache) for cache, _ in model.distinct):
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


def _attention(cache: Attention, model: Model, place: Place, blocks: Blocks) -> Iterator[Spec]:
    heads = place.settings.parallel.shard.units(cache.kv_heads, "KV heads")
    token = heads * cells.pair(place.kv, cache.k_dim, cache.v_dim)
    identity = (heads, cache.k_dim, cache.v_dim, place.kv)
    if cache.window is not None:
        block = _window_block(cache, model, place, blocks.attention)
        modules = model.drafter is None and len(model.draft_layers) > 1
        extra = place.settings.drafted - 1 if place.settings.drafted and modules else 0
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
    need = need_of(cache, model, place, cache.k_dim)
    return largest_within(pick("attention", need, place.gpu, place.settings.block, place.platform), block)


def _cross(cache: CrossAttention, model: Model, place: Place, blocks: Blocks) -> Iterator[Spec]:
    del model
    heads = place.settings.parallel.shard.units(cache.kv_heads, "KV heads")
    size = heads * cells.pair(place.kv, cache.k_dim, cache.v_dim) * blocks.attention
    identity = (heads, cache.k_dim, cache.v_dim, place.kv)
    yield Spec("cross", blocks.attention, size, size, identity, span=cache.tokens)


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
        held += 1 + (checkpoint(cache, model, place) is not None)
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
