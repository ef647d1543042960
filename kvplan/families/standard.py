"""Models whose fields say everything: a stack of layers, each of a kind that patterns.py names."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.arch.layers import Cache, Layer
from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.families import attention, latent, patterns, recurrent
from kvplan.families.fields import Fields


def layers(fields: Fields) -> tuple[Layer, ...]:
    """The decoder stack.

    Raises: MissingField, BadField, Unsupported.
    """
    count = patterns.layer_count(fields)
    if fields.has("compress_ratios") or fields.defaults.value("compress_rates") is not None:
        return latent.compressed_layers(fields, count)
    kinds = patterns.kinds(fields, count)
    _account_for_states(fields, kinds)
    build = _builders(fields, count)
    stack = tuple(Layer(build[kind](layer)) for layer, kind in enumerate(kinds))
    return shared(fields, kinds, stack)


def _account_for_states(fields: Fields, kinds: tuple[str, ...]) -> None:
    """A config that shapes a recurrent state must also say which layers keep it.

    Raises: Unsupported.
    """
    if patterns.STATE in kinds or patterns.BOTH in kinds:
        return
    for names, _ in recurrent.LAWS[:-1]:  # the last one, attn_type_list, says it itself
        found = fields.find(*names)
        if found is not None:
            raise Unsupported(
                f"{fields.path}{found[0]} shapes a recurrent state, but no field says which layers keep one",
                hint="add layer_types with one entry a layer",
            )


def _builders(fields: Fields, count: int) -> dict[str, Callable[[int], tuple[Cache, ...]]]:
    """How to make the layer of each kind; what is expensive or may be missing is read when the kind first appears."""
    made: dict[str, Cache] = {}

    def once(name: str, make: Callable[[], Cache]) -> Cache:
        if name not in made:
            made[name] = make()
        return made[name]

    owners = latent.indexer_owners(fields, count) if latent.is_latent(fields) else ()

    def full(layer: int) -> Cache:
        if latent.is_latent(fields):
            owns = owners[layer]
            return once(f"latent {owns}", lambda: latent.latent_layer(fields, owns))
        sparse = attention.block_sparse(fields, layer)
        return once(f"full {sparse}", lambda: _full(fields, sparse))

    def state() -> Cache:
        return once("state", lambda: recurrent.by_fields(fields))

    return {
        patterns.FULL: lambda layer: (full(layer),),
        patterns.SLIDING: lambda _: (once("sliding", lambda: _sliding(fields)),),
        patterns.CHUNKED: lambda _: (once("chunked", lambda: _chunked(fields)),),
        patterns.STATE: lambda _: (state(),),
        patterns.BOTH: lambda layer: (full(layer), state()),
        patterns.NONE: lambda _: (),
    }


def _full(fields: Fields, sparse: tuple[object, int] | None) -> Cache:
    from dataclasses import replace

    ordinary = attention.global_heads(fields, attention.heads(fields)).attention()
    return ordinary if sparse is None else replace(ordinary, indexer=sparse[0], topk=sparse[1])  # type: ignore[arg-type]


def _sliding(fields: Fields) -> Cache:
    size = fields.whole("sliding_window", "sliding_window_size") or patterns.window(fields)
    if size is None:
        raise MissingField(f"{fields.path}sliding_window", cause="some layers see a window whose size isn't stated")
    return attention.sliding_heads(fields, attention.heads(fields)).attention(window=size)


def _chunked(fields: Fields) -> Cache:
    return attention.heads(fields).attention(chunk=fields.need("attention_chunk_size"))


def shared(fields: Fields, kinds: tuple[str, ...], stack: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The stack with layers that reuse an earlier layer's cache: num_kv_shared_layers, or cla_share_factor.

    The last num_kv_shared_layers layers read the last layer of their own kind before them (transformers 5.23
    models/gemma3n). With use_cla, each group of cla_share_factor layers reads its first (Hunyuan-Large technical report,
    arXiv:2411.02265).

    Raises: BadField.
    """
    count = len(stack)
    tail = fields.whole("num_kv_shared_layers", least=0)
    if tail is None:
        tail = fields.whole_or_default("num_kv_shared_layers") or 0
    if tail >= count:
        raise BadField(f"{fields.path}num_kv_shared_layers", tail, f"a number below the {count} layers")
    factor = fields.whole("cla_share_factor") or 1
    if not (fields.find("use_cla") and fields.flag("use_cla")):
        factor = 1
    first_shared = count - tail
    result = []
    for layer in range(count):
        if layer >= first_shared:
            source = max((i for i in range(first_shared) if kinds[i] == kinds[layer]), default=None)
            if source is None:
                raise BadField(
                    f"{fields.path}num_kv_shared_layers", tail, f"few enough that a {kinds[layer]} layer comes before them"
                )
            result.append(Layer((), source))
        elif layer % factor:
            result.append(Layer((), layer - layer % factor))
        else:
            result.append(stack[layer])
    return tuple(result)
