"""kvplan's own description of a model: a page of YAML or JSON that lists what each layer keeps.

docs/model-files.md defines it. A plain model takes five lines:

    kvplan: 1
    name: my-model
    layers: 32
    kv_heads: 8
    head_dim: 128
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.arch.formats import KvFormat, parse_kv_format
from kvplan.arch.layers import BF16
from kvplan.arch.model import DESCRIBED, Context, Model, Origin
from kvplan.errors import KvplanError, Unsupported
from kvplan.sources.description.fields import CACHE_FIELDS, DOCUMENTED, TOP
from kvplan.sources.description.layers import groups, layers_of
from kvplan.sources.description.node import Node, Reader
from kvplan.sources.description.parameters import weights
from kvplan.sources.strict import Lines

VERSION = 1


def model_from_description(config: Mapping[str, object], origin: Origin, lines: Lines | None = None) -> Model:
    """The model of a parsed description.

    lines: of its keys, for messages.

    Raises: MissingField, BadField, Unsupported. All name the field, and its line if that is known.
    """
    top = Node(config, (), Reader(lines or {}, origin.source))
    top.only(TOP | CACHE_FIELDS)
    top.whole("kvplan", most=VERSION)
    reader = top.reader
    layers = layers_of(top)
    drafts = tuple(groups(top, "draft_layers")) if "draft_layers" in config else ()
    _all_used(top)
    dtype = top.format("dtype")
    if dtype is None:
        reader.default("dtype", "bf16")
    return Model(
        origin=Origin(top.text("name"), _source(top, origin), origin.revision),
        family=DESCRIBED,
        layers=tuple(layers),
        dtype=dtype or BF16,
        context=_context(top),
        hidden_size=top.optional_whole("hidden_size"),
        vocab_size=top.optional_whole("vocab_size"),
        kv_hint=_kv_format(top),
        draft_layers=drafts,
        weights=weights(top, len(layers), dtype or BF16),
        defaulted=tuple(reader.defaulted),
        attention_heads=top.optional_whole("heads"),
        intermediate_size=top.optional_whole("intermediate_size"),
    )


def _all_used(top: Node) -> None:
    """Refuse fields that have no effect, such as a window at the top level if no layer slides."""
    for key in sorted((CACHE_FIELDS & set(top.values)) - top.reader.used - {"source", "heads"}):
        if top.values[key] is not None:
            raise Unsupported(
                f"{key} is given, but no layer uses it",
                cause=top.reader.place((key,)),
                hint=f"say which layers it is for (kind: ...), or remove it; {DOCUMENTED} lists the fields of each kind",
            )
    if "kind" in top.values and not isinstance(top.values.get("layers"), int):
        raise top.bad(("kind",), top.values["kind"], "needed beside a list of layers: each group has its own kind")
    if "kind" in top.values and "pattern" in top.values:
        raise top.bad(("kind",), top.values["kind"], "needed beside `pattern`: each entry has its own kind")


def _source(top: Node, origin: Origin) -> str:
    return top.text("source") if "source" in top.values else origin.source


def _context(top: Node) -> Context:
    tokens = top.tokens("max_context")
    if tokens is None:
        return Context(None, "the description gives no max_context")
    return Context(tokens, "max_context")


def _kv_format(top: Node) -> KvFormat | None:
    if top.values.get("kv_dtype") is None:
        return None
    text = top.text("kv_dtype")
    try:
        return parse_kv_format(text)
    except KvplanError as error:
        raise top.bad(("kv_dtype",), text, "a cache format, or two as K:V", error.problem.hint) from None
