"""kvplan's own description of a model: a page of YAML or JSON that lists what each layer keeps.

docs/model-files.md defines it. A plain model is five lines:

    kvplan: 1
    name: my-model
    layers: 32
    kv_heads: 8
    head_dim: 128
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Literal

from kvplan.arch.formats import Format, KvFormat, format_named, parse_kv_format
from kvplan.arch.layers import (
    BF16,
    FP8_INDEX,
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
from kvplan.arch.model import Context, Default, Model, Origin
from kvplan.arch.weights import Storage, Weight, Weights
from kvplan.errors import BadField, BadSize, KvplanError, MissingField, Unsupported
from kvplan.sources.strict import Lines, Path, path_text
from kvplan.units import parse_tokens

VERSION = 1
MOST_LAYERS = 4096
MOST = 2**24
"""Largest number of heads, or of elements of a vector. The largest published is a vocabulary of 262,400."""
MOST_TOKENS = 2**40

ATTENTION = frozenset({"heads", "kv_heads", "head_dim", "k_dim", "v_dim", "indexer", "topk"})
KINDS: Mapping[str, frozenset[str]] = {
    "full": ATTENTION,
    "sliding": ATTENTION | {"window", "sinks"},
    "chunked": ATTENTION | {"chunk"},
    "latent": frozenset({"heads", "rank", "rope_dim", "nope_dim", "v_dim", "indexer", "topk", "window"}),
    "compressed": frozenset({"heads", "head_dim", "window", "ratio", "indexer", "topk", "state_elements"}),
    "recurrent": frozenset({"law", "tensors", "source"}),
    "cross": (ATTENTION | {"tokens"}) - {"indexer", "topk"},
    "none": frozenset({"shares_with"}),
}
"""What a layer may keep, and the fields that say how much."""

_CACHE_FIELDS = frozenset().union(*KINDS.values()) - {"shares_with"}
_TOP = frozenset({
    "kvplan", "name", "source", "layers", "pattern", "draft_layers", "kind", "hidden_size", "vocab_size", "parameters",
    "max_context", "dtype", "kv_dtype", "weight_dtype",
})  # fmt: skip
_INDEXER = frozenset({"dim", "dtype", "pool"})
_TENSOR = frozenset({"role", "rows", "widths", "dtype", "usual_dtype"})
_DOCUMENTED = "docs/model-files.md"


def model_from_description(config: Mapping[str, object], origin: Origin, lines: Lines | None = None) -> Model:
    """The model that a parsed description says.

    lines: of its keys, so that messages can name them.

    Raises: MissingField, BadField, Unsupported; all name the field, and its line if that is known.
    """
    top = _Node(config, (), _Reader(lines or {}, origin.source))
    top.only(_TOP | _CACHE_FIELDS)
    top.whole("kvplan", most=VERSION)
    reader = top.reader
    layers = _layers(top)
    drafts = tuple(_group_list(top, "draft_layers", [])) if "draft_layers" in config else ()
    _all_used(top)
    dtype = top.format("dtype")
    if dtype is None:
        reader.default("dtype", "bf16")
    return Model(
        origin=Origin(top.text("name"), _source(top, origin), origin.revision),
        family="kvplan",
        layers=tuple(layers),
        dtype=dtype or BF16,
        context=_context(top),
        hidden_size=top.optional_whole("hidden_size"),
        vocab_size=top.optional_whole("vocab_size"),
        kv_hint=_kv_format(top),
        draft_layers=drafts,
        weights=_weights(top, len(layers), dtype or BF16),
        defaulted=tuple(reader.defaulted),
        attention_heads=top.optional_whole("heads"),
    )


@dataclass(slots=True)
class _Reader:
    """What all parts of one description share: its lines, its name, and what was filled in."""

    lines: Lines
    name: str
    defaulted: list[Default] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def place(self, path: Path) -> str:
        """`line 7 of model.yaml`, or the file alone."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"line {self.lines[path]} of {self.name}" if path in self.lines else f"in {self.name}"

    def default(self, name: str, value: object) -> None:
        """Note once what was used for a field that isn't there."""
        entry = Default(name, value, f"kvplan description, {_DOCUMENTED}")
        if entry not in self.defaulted:
            self.defaulted.append(entry)


@dataclass(frozen=True, slots=True)
class _Node:
    """A mapping of the description. inherited: the top level, whose cache fields hold for every layer."""

    values: Mapping[str, object]
    path: Path
    reader: _Reader
    inherited: Mapping[str, object] = field(default_factory=dict)

    def only(self, known: frozenset[str], what: str = "a kvplan description") -> None:
        """Raises: Unsupported for a key that isn't one of `known`."""
        for key in self.values:
            if key not in known:
                raise _unknown(self, key, known, what)

    def find(self, key: str) -> tuple[Path, object]:
        """Where a field is, here or inherited, and its value; None if it is nowhere (or null)."""
        if self.values.get(key) is not None:
            return (*self.path, key), self.values[key]
        if self.inherited.get(key) is not None:
            self.reader.used.add(key)
            return (key,), self.inherited[key]
        return (*self.path, key), None

    def optional_whole(self, key: str, *, least: int = 1, most: int = MOST) -> int | None:
        """A whole number, or None where it isn't given."""
        path, value = self.find(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.bad(path, value, f"a whole number from {least:,} to {most:,}")
        return value

    def whole(self, key: str, *, least: int = 1, most: int = MOST) -> int:
        """A whole number."""
        value = self.optional_whole(key, least=least, most=most)
        if value is None:
            raise self.missing(key)
        return value

    def tokens(self, key: str) -> int | None:
        """A number of tokens: 4096, or 128k."""
        path, value = self.find(key)
        if isinstance(value, str):
            try:
                value = parse_tokens(value)
            except BadSize:
                raise self.bad(path, value, "a number of tokens like 4096 or 128k") from None
            return value if 0 < value <= MOST_TOKENS else self.optional_whole(key, most=0)
        return self.optional_whole(key, most=MOST_TOKENS)

    def needed_tokens(self, key: str) -> int:
        """A number of tokens that must be given."""
        value = self.tokens(key)
        if value is None:
            raise self.missing(key)
        return value

    def text(self, key: str) -> str:
        """A string."""
        path, value = self.find(key)
        if value is None:
            raise self.missing(key)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.bad(path, value, "a line of text")
        return value

    def format(self, key: str) -> Format | None:
        """A number format, or None where it isn't given."""
        if self.find(key)[1] is None:
            return None
        try:
            return format_named(self.text(key))
        except KvplanError as error:
            raise self.bad(self.find(key)[0], self.find(key)[1], "a number format", error.problem.hint) from None

    def children(self, key: str) -> Iterator[tuple[Path, object]]:
        """Items of a list that must be given."""
        path, value = self.find(key)
        if value is None:
            raise self.missing(key)
        if not isinstance(value, list) or not value:
            raise self.bad(path, value, "a list")
        yield from (((*path, number), item) for number, item in enumerate(value))

    def child(self, path: Path, value: object) -> _Node:
        """A mapping below this one, which inherits nothing."""
        if not isinstance(value, Mapping):
            raise self.bad(path, value, "a mapping of fields")
        return _Node(value, path, self.reader)

    def missing(self, key: str) -> MissingField:
        """The error for a field that must be there."""
        path = (*self.path, key)
        kind = f" of kind {self.values['kind']}" if isinstance(self.values.get("kind"), str) else ""
        where = f"a layer{kind} needs it: {self.reader.place(self.path)}" if self.path else self.reader.place(())
        hint = f"add `{key}: ...` there{', or at the top level for all layers' if key in _CACHE_FIELDS else ''}"
        return MissingField(path_text(path), cause=where, hint=f"{hint}; {_DOCUMENTED} lists the fields")

    def bad(self, path: Path, value: object, wanted: str, hint: str | None = None) -> BadField:
        """The error for a value that can't be what its field means."""
        return BadField(path_text(path), value, wanted, cause=self.reader.place(path), hint=hint)


def _unknown(node: _Node, key: str, known: frozenset[str], what: str) -> Unsupported:
    from difflib import get_close_matches

    kinds = [kind for kind, fields in KINDS.items() if key in fields]
    near = get_close_matches(key, sorted(known), n=1)
    if kinds:
        hint = f"kinds of layer with {key}: {', '.join(kinds)}"
    else:
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
    path = (*node.path, key)
    return Unsupported(f"{path_text(path)} is not a field of {what}", cause=node.reader.place(path), hint=hint)


# Layers --------------------------------------------------------------------------------------------------------------


def _layers(top: _Node) -> list[Layer]:
    """All layers: a number of equal ones, a number of them that repeat a pattern, or a list of groups."""
    value = top.values.get("layers")
    if isinstance(value, list):
        if "pattern" in top.values:
            raise top.bad(("layers",), value, "a number of layers, which `pattern` needs")
        return list(_group_list(top, "layers", []))
    count = top.whole("layers", most=MOST_LAYERS)
    if "pattern" in top.values:
        pattern = list(_group_list(top, "pattern", []))
        return list(islice(cycle(pattern), count))
    fields = {key: value for key, value in top.values.items() if key in _CACHE_FIELDS - {"source"}}
    top.reader.used.update(fields)
    return [_layer(_Node({"kind": "full", **fields, **_kind_of(top)}, (), top.reader), 0, [])] * count


def _kind_of(top: _Node) -> dict[str, object]:
    return {"kind": top.values["kind"]} if "kind" in top.values else {}


def _group_list(top: _Node, key: str, before: list[Layer]) -> list[Layer]:
    layers = before
    for path, item in top.children(key):
        fields = {"kind": item} if isinstance(item, str) else top.child(path, item).values
        node = _Node(fields, path, top.reader, top.values)
        count = node.whole("count", most=MOST_LAYERS) if "count" in fields else 1
        if len(layers) + count > MOST_LAYERS:
            raise top.bad(path, count, f"a count that keeps the model below {MOST_LAYERS} layers")
        layers += [_layer(node, len(layers), layers)] * count
    return layers


def _layer(node: _Node, number: int, earlier: list[Layer]) -> Layer:
    """One layer. number: its index. earlier: the layers before it, which it may share with."""
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


def _inheriting(node: _Node, path: Path, item: object) -> _Node:
    values = {"kind": item} if isinstance(item, str) else node.child(path, item).values
    return _Node(values, path, node.reader, node.inherited)


def _cache(node: _Node) -> Cache | None:
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


def _heads(node: _Node) -> _Heads:
    kv_heads, heads = node.whole("kv_heads"), node.optional_whole("heads")
    if heads is not None and heads % kv_heads:
        raise node.bad(node.find("heads")[0], heads, f"a multiple of the {kv_heads} kv_heads")
    both = node.optional_whole("head_dim")
    k_dim, v_dim = node.optional_whole("k_dim") or both, node.optional_whole("v_dim") or both
    if k_dim is None or v_dim is None:
        raise node.missing("head_dim")
    return _Heads(heads, kv_heads, k_dim, v_dim)


def _attention(node: _Node, kind: str) -> Attention:
    found = _heads(node)
    return Attention(
        found.heads, found.kv_heads, found.k_dim, found.v_dim,
        window=node.needed_tokens("window") if kind == "sliding" else None,
        chunk=node.needed_tokens("chunk") if kind == "chunked" else None,
        sinks=node.optional_whole("sinks", least=0) or 0 if kind == "sliding" else 0,
        indexer=_indexer(node),
        topk=node.tokens("topk"),
    )  # fmt: skip


def _latent(node: _Node) -> Latent:
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


def _compressed(node: _Node) -> Compressed:
    return Compressed(
        heads=node.whole("heads"),
        dim=node.whole("head_dim"),
        window=node.needed_tokens("window"),
        ratio=node.optional_whole("ratio"),
        indexer=_indexer(node),
        topk=node.tokens("topk"),
        state_elements=node.optional_whole("state_elements", least=0, most=MOST_TOKENS) or 0,
    )


def _cross(node: _Node) -> CrossAttention:
    found = _heads(node)
    if found.heads is None:
        raise node.missing("heads")
    return CrossAttention(found.heads, found.kv_heads, found.k_dim, found.v_dim, node.needed_tokens("tokens"))


def _recurrent(node: _Node) -> Recurrent:
    tensors = tuple(_tensor(node.child(path, item)) for path, item in node.children("tensors"))
    source = node.text("source") if "source" in node.values else f"the description {node.reader.name}"
    return Recurrent(node.text("law"), tensors, source)


_BUILD: Mapping[str, Callable[[_Node], Cache]] = {
    "latent": _latent,
    "compressed": _compressed,
    "cross": _cross,
    "recurrent": _recurrent,
}


def _tensor(node: _Node) -> StateTensor:
    node.only(_TENSOR, "a tensor")
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


def _indexer(node: _Node) -> Indexer | None:
    path, value = node.find("indexer")
    if value is None:
        return None
    own = node.child(path, value)
    own.only(_INDEXER, "an indexer")
    return Indexer(own.whole("dim"), own.format("dtype") or FP8_INDEX, own.optional_whole("pool") or 1)


def _all_used(top: _Node) -> None:
    """Refuse what looks as if it mattered: a window at the top level while no layer slides."""
    for key in sorted((_CACHE_FIELDS & set(top.values)) - top.reader.used - {"source", "heads"}):
        if top.values[key] is not None:
            raise Unsupported(
                f"{key} is given, but no layer uses it",
                cause=top.reader.place((key,)),
                hint=f"say which layers it is for (kind: ...), or remove it; {_DOCUMENTED} lists the fields of each kind",
            )
    if "kind" in top.values and not isinstance(top.values.get("layers"), int):
        raise top.bad(("kind",), top.values["kind"], "needed beside a list of layers: each group has its own kind")
    if "kind" in top.values and "pattern" in top.values:
        raise top.bad(("kind",), top.values["kind"], "needed beside `pattern`: each entry has its own kind")


# The rest of the page ------------------------------------------------------------------------------------------------


def _source(top: _Node, origin: Origin) -> str:
    return top.text("source") if "source" in top.values else origin.source


def _context(top: _Node) -> Context:
    tokens = top.tokens("max_context")
    if tokens is None:
        return Context(None, "the description gives no max_context")
    return Context(tokens, "max_context")


def _kv_format(top: _Node) -> KvFormat | None:
    if top.values.get("kv_dtype") is None:
        return None
    text = top.text("kv_dtype")
    try:
        return parse_kv_format(text)
    except KvplanError as error:
        raise top.bad(("kv_dtype",), text, "a cache format, or two as K:V", error.problem.hint) from None


_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([mbtMBT])", re.ASCII)
_UNITS = {"m": 10**6, "b": 10**9, "t": 10**12}
MOST_PARAMETERS = 10**15
_ROUNDED = "digits that a rounded count leaves out"


def _weights(top: _Node, layers: int, dtype: Format) -> Weights | None:
    """Weights of which only the number is known: spread evenly over the layers, and over the tensor ranks.

    With experts, of E of which a token uses k, `total = shared + E x` and `active = shared + k x` give both parts.
    """
    path, value = top.find("parameters")
    if value is None:
        return None
    stored = _storage(top.format("weight_dtype") or dtype)
    if not isinstance(value, Mapping):
        total, exact = _parameters(top, path, value)
        return _spread(total, None, layers, stored, exact=exact)
    node = top.child(path, value)
    node.only(frozenset({"total", "active", "experts", "experts_per_token"}), "parameters")
    total, exact = _count(node, "total")
    if node.values.get("active") is None:
        return _spread(total, None, layers, stored, exact=exact)
    active, active_exact = _count(node, "active")
    experts = node.whole("experts")
    picked = node.whole("experts_per_token", most=experts - 1 or 1)
    if not total * picked <= active * experts <= total * experts:
        least = -(-total * picked // experts)
        raise node.bad((*path, "active"), active, f"from {least:,} (no shared weights) to the total of {total:,}")
    return _spread(total, (active, experts, picked), layers, stored, exact=exact and active_exact)


def _storage(dtype: Format) -> Storage:
    group = dtype.block if dtype.scale_bits else 0
    return Storage(dtype.name, dtype.bits, group=group, group_bits=dtype.scale_bits, source=dtype.source)


def _spread(total: int, routing: tuple[int, int, int] | None, layers: int, stored: Storage, *, exact: bool) -> Weights:
    each: list[Weight] = []
    left = total
    if routing is not None:
        active, experts, picked = routing
        expert = (total - active) // ((experts - picked) * layers)
        if expert:
            each.append(Weight("experts", (expert,), "experts", stored, 0, copies=experts, picked=picked, linear=True))
        left -= expert * experts * layers
    share, rest = divmod(left, layers)
    if share:
        each.append(Weight("all", (share,), "mlp", stored, 0, linear=True))
    last = (Weight("rest", (rest,), "norm", stored),) if rest else ()
    missing = () if exact else (_ROUNDED,)
    return Weights((), (tuple(each),) * layers, last, missing=missing, method="the description's parameters")


def _count(node: _Node, key: str) -> tuple[int, bool]:
    if node.values.get(key) is None:
        raise node.missing(key)
    return _parameters(node, (*node.path, key), node.values[key])


def _parameters(node: _Node, path: Path, value: object) -> tuple[int, bool]:
    """A number of parameters, and whether it is exact: 8030261248 is, 8.03B isn't."""
    from decimal import Decimal

    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_PARAMETERS:
        return value, True
    match = _COUNT.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        number = int(Decimal(match[1]) * _UNITS[match[2].lower()])
        if 0 < number <= MOST_PARAMETERS:
            return number, False
    raise node.bad(path, value, "a number of parameters like 8030261248 or 8.03B")
