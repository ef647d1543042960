"""Parts of a model that its config speaks of in fields which nobody read: then a count is a lower bound, and says why.

Fields of classes that transformers builds are trusted: their counts were compared. What no class knows is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.families.fields import Fields
from kvplan.families.locate import NESTED
from kvplan.families.weights.symbols import SPELLINGS
from kvplan.families.weights.tower_reader import READ_PARTS

PARTS = re.compile(
    r"(?:^|_)(?:tower|towers|projector|resampler|qformer|adapter|adapters)(?:_cfg|_config)?$"
    r"|^(?:img|image|audio|speech|vision|video|embd)_(?:processor|lora|layer|encoder|embedding|tower|backbone)(?:_cfg|_id)?$"
)
"""Names of whole parts beside the language model: towers, projectors, adapters built into the checkpoint."""

SIZES = re.compile(r"(?:^|_)(?:dim|dims|size|width|rank|hidden|inner|latent)$")
"""Names of dimensions."""

NOT_SIZES = re.compile(
    r"window|chunk|(?:^|_)(?:ep|tp|pp|sp|dp|group|batch|block|patch|image|pool\w*|queue|world|beam|ngram|topk|sliding|context|model_base"
    r"|kernel|step|stride|vocab|summary|classifier|cache|memory|crop|tile|buffer|page)(?:_|$)|^num_"
)
"""Of these, names that shape no tensor by themselves."""

ORDINARY = frozenset(name for names in SPELLINGS.values() for name in names)
"""Fields whose meaning is known; a family that doesn't look at one has no use for it."""

SHAPES = re.compile(
    r"(?:^|_)(?:width|d_model|dims?|hidden|channels|ffn|d_ff|n_embd|n_state|n_inner|heads?"
    r"|(?:hidden|intermediate|inner|input|output|in|out|embed|embedding|ffn|mlp)_?(?:size|dim|features|channels))$"
)
"""Widths and heads, as objects that describe a stack of layers call them. A depth alone is what records count in, too."""

LEAST = 8
"""Smaller numbers are counts and switches."""


def unread_parts(fields: Fields) -> tuple[str, ...]:
    """What the config has that no reader looked at, in words: `vision tower (img_processor)`."""
    return tuple(dict.fromkeys((*_parts(fields), *_objects(fields), *_sizes(fields))))


def _objects(fields: Fields) -> Iterator[str]:
    """Nested objects, whatever they are called, that describe something with weights which nobody built."""
    read = {id(node) for node in (fields.node, *fields.parents)}
    for node in (fields.node, *fields.parents):
        for name, value in node.items():
            if name in fields.ledger.read or name in READ_PARTS or id(value) in read or PARTS.search(name):
                continue
            if isinstance(value, Mapping) and (_shapes(value) or (name not in NESTED and _is_another(value, node))):
                yield f"what {name} describes"


def _is_another(inner: Mapping[str, Any], outer: Mapping[str, Any]) -> bool:
    """Whether an object is of a model type of its own."""
    return inner.get("model_type") not in (None, outer.get("model_type"))


def _shapes(node: Mapping[str, Any]) -> bool:
    """Whether an object, or one inside it, has a width or heads."""
    return any(_shapes(value) if isinstance(value, Mapping) else _is_shape(name, value) for name, value in node.items())


def _is_shape(name: str, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1 and bool(SHAPES.search(name))


def _parts(fields: Fields) -> Iterator[str]:
    for node in (fields.node, *fields.parents):
        for name, value in node.items():
            named = isinstance(value, Mapping | str) and bool(value)
            if named and name not in fields.ledger.read and PARTS.search(name):
                yield f"{_kind(name)} ({name})"


def _kind(name: str) -> str:
    if name.startswith(("audio", "speech")):
        return "audio tower"
    return "projector" if "projector" in name else "vision tower"


def _sizes(fields: Fields) -> Iterator[str]:
    """Dimensions in the language model's own object that are no number anyone used."""
    if fields.defaults.known:
        return
    used = _numbers(fields)
    for name, value in fields.node.items():
        if name in fields.ledger.read or name in ORDINARY or not SIZES.search(name) or NOT_SIZES.search(name):
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= LEAST and value not in used:
            yield f"what {name} is for"


def _numbers(fields: Fields) -> set[Any]:
    """Values that were read, and products of two of them: a width that only restates them is none of its own."""
    read = [
        value
        for name, value in fields.node.items()
        if name in fields.ledger.read and isinstance(value, int) and not isinstance(value, bool) and value > 1
    ]
    sums = {one + other for one in read for other in read}
    return {*read, *(one * other for one in read for other in read), *sums}
