"""Models whose fields say everything: a stack of layers, each of a kind that patterns.py names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kvplan.arch.layers import Cache, Layer
from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.families import attention, counts, latent, patterns, recurrent
from kvplan.families.attention import Heads
from kvplan.families.drafts import reads_target
from kvplan.families.fields import Fields
from kvplan.families.window_length import window, window_names


def layers(fields: Fields) -> tuple[Layer, ...]:
    """The decoder stack.

    Raises: MissingField, BadField, Unsupported.
    """
    count = counts.layer_count(fields)
    if fields.has("compress_ratios") or fields.defaults.value("compress_rates") is not None:
        return latent.compressed_layers(fields, count)
    kinds = patterns.kinds(fields, count)
    _account_for_states(fields, kinds)
    builder = _Builder(fields, count)
    stack = tuple(builder.layer(index, kind) for index, kind in enumerate(kinds))
    return shared(fields, kinds, stack)


def _account_for_states(fields: Fields, kinds: tuple[str, ...]) -> None:
    """A config that shapes a recurrent state must also say which layers keep it, or its class for any number of layers.

    Raises: Unsupported.
    """
    said = fields.has(*patterns.SAYS_WHICH) or fields.defaults.pattern("layer_types", len(kinds)) is not None
    if said or {*kinds} & {patterns.STATE, patterns.BOTH}:
        return
    for law in recurrent.LAWS:
        found = fields.find(*filter(fields.defaults.reads, law.fields))
        if found is not None:
            raise Unsupported(
                f"{fields.path}{found[0]} shapes a recurrent state, but no field says which layers keep one",
                hint="add layer_types with one entry a layer",
            )


@dataclass(slots=True)
class _Builder:
    """Makes layers of each kind; layers that read the same fields share one object."""

    fields: Fields
    count: int
    made: dict[tuple[object, ...], Layer] = field(default_factory=dict)
    owners: tuple[bool, ...] = ()
    rotating: tuple[bool, ...] = ()
    own_heads: tuple[int, ...] = ()
    embedded: tuple[int, ...] = ()
    differ: bool = False

    def __post_init__(self) -> None:
        self.own_heads = _own_heads(self.fields, self.count)
        self.embedded = self.fields.wholes("ple_layer_ids", least=1) or ()  # counted from 1
        self.differ = self.fields.has("per_layer_config")
        if latent.is_latent(self.fields):
            self.owners = latent.indexer_owners(self.fields, self.count)
            self.rotating = latent.rotating_layers(self.fields, self.count)

    def layer(self, index: int, kind: str) -> Layer:
        """Layer number `index`, of that kind."""
        own = self.fields.of_layer(index) if self.differ else self.fields
        sparse = attention.block_sparse(own, index)
        heads = self.own_heads[index] if self.own_heads else None
        switches = self.owners[index : index + 1], self.rotating[index : index + 1]
        key = (kind, *switches, heads, sparse, index + 1 in self.embedded, index if self.differ else None)
        if key not in self.made:
            self.made[key] = Layer(_CACHES[kind](self, own, index))
        return self.made[key]

    def full(self, fields: Fields, index: int) -> tuple[Cache, ...]:
        if self.owners:
            return (latent.latent_layer(fields, owns_indexer=self.owners[index], rotates=self.rotating[index]),)
        ordinary = attention.global_heads(fields, self.heads(fields, index)).attention()
        sparse = attention.block_sparse(fields, index) or attention.grouped_indexer(fields)
        return (ordinary if sparse is None else replace(ordinary, indexer=sparse[0], topk=sparse[1]),)

    def sliding(self, fields: Fields, index: int) -> tuple[Cache, ...]:
        size = _window(fields)
        if self.owners:
            return (latent.sliding_latent(fields, size),)
        return (attention.sliding_heads(fields, self.heads(fields, index)).attention(window=size),)

    def chunked(self, fields: Fields, index: int) -> tuple[Cache, ...]:
        return (self.heads(fields, index).attention(chunk=fields.need("attention_chunk_size")),)

    def state(self, fields: Fields, index: int) -> tuple[Cache, ...]:
        found = recurrent.by_fields(fields)
        if index + 1 in self.embedded:
            found = replace(found, tensors=(*found.tensors, recurrent.dilated_convolution(fields)))
        return (found,)

    def both(self, fields: Fields, index: int) -> tuple[Cache, ...]:
        return (*self.full(fields, index), recurrent.beside(fields, self.heads(fields, index)))

    def both_sliding(self, fields: Fields, index: int) -> tuple[Cache, ...]:
        local = attention.sliding_heads(fields, self.heads(fields, index))
        return (*self.sliding(fields, index), recurrent.beside(fields, local))

    def nothing(self, _: Fields, __: int) -> tuple[Cache, ...]:
        return ()

    def heads(self, fields: Fields, index: int) -> Heads:
        ordinary = attention.heads(fields)
        return replace(ordinary, heads=self.own_heads[index]) if self.own_heads else ordinary


_CACHES: dict[str, Callable[[_Builder, Fields, int], tuple[Cache, ...]]] = {
    patterns.FULL: _Builder.full,
    patterns.SLIDING: _Builder.sliding,
    patterns.CHUNKED: _Builder.chunked,
    patterns.STATE: _Builder.state,
    patterns.BOTH: _Builder.both,
    patterns.BOTH_SLIDING: _Builder.both_sliding,
    patterns.NONE: _Builder.nothing,
}


def _own_heads(fields: Fields, count: int) -> tuple[int, ...]:
    """Query heads layer by layer where each says its own; empty where all are alike."""
    listed = fields.wholes("num_attention_heads_per_layer", least=1) or ()
    if listed and len(listed) < count:
        raise BadField(f"{fields.path}num_attention_heads_per_layer", list(listed), f"{count} head counts, one a layer")
    return listed


def _window(fields: Fields) -> int:
    size = _stated_window(fields) or window(fields)
    if size is None:
        size = fields.whole_or_default(*window_names(fields))
    if size is None:
        raise MissingField(f"{fields.path}sliding_window", cause="some layers see a window whose size isn't stated")
    return size


def _stated_window(fields: Fields) -> int | None:
    found = fields.find(*window_names(fields))
    if found is None:
        return None
    if isinstance(found[1], int) and found[1] < 0:
        raise BadField(
            fields.path + found[0], found[1], "a positive whole number",
            cause="some layers see a window of so many tokens", hint="write null where every layer sees everything",
        )  # fmt: skip
    return fields.as_whole(*found)


def shared(fields: Fields, kinds: tuple[str, ...], stack: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The stack with layers that reuse an earlier layer's cache.

    kv_source_layers names the source of each layer (transformers 5.23 models/mistral_large4). The last
    num_kv_shared_layers layers read the last layer of their own kind before them (models/gemma3n). With use_cla, each
    group of cla_share_factor layers reads its first (Hunyuan-Large technical report, arXiv:2411.02265).

    Raises: BadField.
    """
    sources = _sources(fields, kinds)
    return tuple(
        layer if source == index else Layer((), source)
        for index, (layer, source) in enumerate(zip(stack, sources, strict=True))
    )


def _sources(fields: Fields, kinds: tuple[str, ...]) -> tuple[int, ...]:
    """For each layer the one whose cache it reads: itself, or an earlier one."""
    count = len(kinds)
    named = fields.wholes("kv_source_layers")
    if named is not None:
        if len(named) != count or any(source > index or named[source] != source for index, source in enumerate(named)):
            raise BadField(
                f"{fields.path}kv_source_layers", list(named), f"{count} layers, each itself or an earlier owner"
            )
        return named
    factor = fields.whole("cla_share_factor") or 1
    if not (fields.find("use_cla") and fields.flag("use_cla")):
        factor = 1
    first_shared = count - _shared_tail(fields, count)
    return tuple(
        _last_of_kind(fields, kinds, first_shared, index) if index >= first_shared else index - index % factor
        for index in range(count)
    )


def _shared_tail(fields: Fields, count: int) -> int:
    if reads_target(fields):
        fields.has("num_kv_shared_layers")
        return 0
    tail = fields.whole("num_kv_shared_layers", least=0)
    if tail is None:
        tail = fields.whole_or_default("num_kv_shared_layers") or 0
    if tail >= count:
        raise BadField(
            f"{fields.path}num_kv_shared_layers", tail, f"a number below the {count} layers",
            cause="no layer would keep a cache that the others could read",
            hint='only a draft reads its target\'s: give it with --draft, its whole config with its "model_type": "gemma4_assistant"',
        )  # fmt: skip
    return tail


def _last_of_kind(fields: Fields, kinds: tuple[str, ...], first_shared: int, index: int) -> int:
    source = max((i for i in range(first_shared) if kinds[i] == kinds[index]), default=None)
    if source is None:
        tail = len(kinds) - first_shared
        wanted = f"few enough that a {kinds[index]} layer comes before them"
        raise BadField(
            f"{fields.path}num_kv_shared_layers", tail, wanted,
            cause="each of them reads the last layer of its kind before them all",
            hint=f"write at most {_most_shared(kinds)}, or 0 where every layer keeps its own",
        )  # fmt: skip
    return source


def _most_shared(kinds: tuple[str, ...]) -> int:
    """Layers at the end that may share: those after the first of each kind."""
    return len(kinds) - 1 - max(kinds.index(kind) for kind in set(kinds))
