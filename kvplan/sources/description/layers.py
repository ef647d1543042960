"""Layers of a description: equal ones, a repeated pattern, or groups, and what each keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Literal

from kvplan.arch.layers import (
    FP8_INDEX,
    MOST_LAYERS,
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
from kvplan.sources.description.fields import CACHE_FIELDS, INDEXER, KINDS, MOST, MOST_TOKENS, TENSOR
from kvplan.sources.description.node import Node
from kvplan.sources.strict import Path


def layers_of(top: Node) -> list[Layer]:
    """All layers: a number of equal ones, a repeated pattern, or a list of groups."""
    value = top.values.get("layers")
    if isinstance(value, list):
        if "pattern" in top.values:
            raise top.bad(("layers",), value, "a number of layers, which `pattern` needs")
        return groups(top, "layers")
    count = top.whole("layers", most=MOST_LAYERS)
    if "pattern" in top.values:
        return list(islice(cycle(groups(top, "pattern")), count))
    fields = {key: value for key, value in top.values.items() if key in CACHE_FIELDS - {"source"}}
    top.reader.used.update(fields)
    return [_layer(Node({"kind": "full", **fields, **_kind_of(top)}, (), top.reader), 0, [])] * count


def _kind_of(top: Node) -> dict[str, object]:
    return {"kind": top.values["kind"]} if "kind" in top.values else {}


def groups(top: Node, key: str) -> list[Layer]:
    """The layers of a list of groups. Each group states its number of layers."""
    layers: list[Layer] = []
    for path, item in top.children(key):
        fields = {"kind": item} if isinstance(item, str) else top.child(path, item).values
        node = Node(fields, path, top.reader, top.values)
        count = node.whole("count", most=MOST_LAYERS) if "count" in fields else 1
        if len(layers) + count > MOST_LAYERS:
            raise top.bad(path, count, f"a count that keeps the model below {MOST_LAYERS} layers")
        layers += [_layer(node, len(layers), layers)] * count
    return layers


def _layer(node: Node, number: int, earlier: list[Layer]) -> Layer:
    """One layer. number: its index. earlier: the layers before it, with which it may share a cache."""
    if "caches" in node.values:
        node.only(frozenset({"count", "caches"}), "a group with caches")
        caches = [_cache(_inheriting(node, path, item)) for path, item in node.children("caches")]
        return Layer(tuple(cache for cache in caches if cache is not None))
    cache = _cache(node)
    if cache is not None:
        return Layer((cache,))
    shared = node.optional_whole("shares_with", least=0, most=MOST_LAYERS)
    if shared is not None and (shared >= number or not earlier[shared].caches):
        raise node.bad((*node.path, "shares_with"), shared, "the index (from 0) of an earlier layer that keeps a cache")
    return Layer(shares_with=shared)


def _inheriting(node: Node, path: Path, item: object) -> Node:
    values = {"kind": item} if isinstance(item, str) else node.child(path, item).values
    return Node(values, path, node.reader, node.inherited)


def _cache(node: Node) -> Cache | None:
    kind = node.text("kind") if "kind" in node.values else "full"
    if kind not in KINDS:
        raise node.bad((*node.path, "kind"), kind, f"one of {', '.join(KINDS)}")
    node.only(KINDS[kind] | {"kind", "count"}, f"a layer of kind {kind}")
    if kind in _ATTENTION_KINDS:
        return _attention(node, kind)
    return None if kind == "none" else _BUILD[kind](node)


_ATTENTION_KINDS = frozenset({"full", "sliding", "chunked"})


@dataclass(frozen=True, slots=True)
class _Heads:
    heads: int | None
    kv_heads: int
    k_dim: int
    v_dim: int


def _heads(node: Node) -> _Heads:
    kv_heads, heads = node.whole("kv_heads"), node.optional_whole("heads")
    if heads is not None and heads % kv_heads:
        raise node.bad(node.find("heads")[0], heads, f"a multiple of the {kv_heads} kv_heads")
    both = node.optional_whole("head_dim")
    k_dim, v_dim = node.optional_whole("k_dim") or both, node.optional_whole("v_dim") or both
    if k_dim is None or v_dim is None:
        raise node.missing("head_dim")
    return _Heads(heads, kv_heads, k_dim, v_dim)


def _attention(node: Node, kind: str) -> Attention:
    found = _heads(node)
    return Attention(
        found.heads, found.kv_heads, found.k_dim, found.v_dim,
        window=node.needed_tokens("window") if kind == "sliding" else None,
        chunk=node.needed_tokens("chunk") if kind == "chunked" else None,
        sinks=node.optional_whole("sinks", least=0) or 0 if kind == "sliding" else 0,
        indexer=_indexer(node),
        topk=node.tokens("topk"),
    )  # fmt: skip


def _latent(node: Node) -> Latent:
    return Latent(
        heads=node.optional_whole("heads"),
        rank=node.whole("rank"),
        rope_dim=node.whole("rope_dim"),
        nope_dim=node.optional_whole("nope_dim"),
        v_dim=node.optional_whole("v_dim"),
        indexer=_indexer(node),
        topk=node.tokens("topk"),
        window=node.tokens("window") if "window" in node.values else None,  # other layers' window isn't inherited
    )


def _compressed(node: Node) -> Compressed:
    return Compressed(
        heads=node.whole("heads"),
        dim=node.whole("head_dim"),
        window=node.needed_tokens("window"),
        ratio=node.optional_whole("ratio"),
        indexer=_indexer(node),
        topk=node.tokens("topk"),
        state_elements=node.optional_whole("state_elements", least=0, most=MOST_TOKENS) or 0,
    )


def _cross(node: Node) -> CrossAttention:
    found = _heads(node)
    if found.heads is None:
        raise node.missing("heads")
    return CrossAttention(found.heads, found.kv_heads, found.k_dim, found.v_dim, node.needed_tokens("tokens"))


def _recurrent(node: Node) -> Recurrent:
    tensors = tuple(_tensor(node.child(path, item)) for path, item in node.children("tensors"))
    source = node.text("source") if "source" in node.values else f"the description {node.reader.name}"
    return Recurrent(node.text("law"), tensors, source)


_BUILD: Mapping[str, Callable[[Node], Cache]] = {
    "latent": _latent,
    "compressed": _compressed,
    "cross": _cross,
    "recurrent": _recurrent,
}


def _tensor(node: Node) -> StateTensor:
    node.only(TENSOR, "a tensor")
    role = node.text("role")
    if role not in _ROLES:
        raise node.bad((*node.path, "role"), role, f"one of {', '.join(_ROLES)}")
    widths = []
    for path, item in node.children("widths"):
        if not isinstance(item, list) or len(item) != len(("units", "width")) or not all(map(_is_size, item)):
            raise node.bad(path, item, "a pair [units, elements of one unit]")
        widths.append((int(item[0]), int(item[1])))
    return StateTensor(
        _ROLES[role], node.whole("rows"), tuple(widths), node.format("dtype"), node.format("usual_dtype")
    )


_ROLES: Mapping[str, Literal["conv", "recurrent", "shift"]] = {
    "conv": "conv", "recurrent": "recurrent", "shift": "shift",
}  # fmt: skip


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST


def _indexer(node: Node) -> Indexer | None:
    path, value = node.find("indexer")
    if value is None:
        return None
    own = node.child(path, value)
    own.only(INDEXER, "an indexer")
    stored, pool = own.format("dtype") or FP8_INDEX, own.optional_whole("pool") or 1
    return Indexer(own.whole("dim"), stored, pool, gated=own.switch("gates", default=True))
