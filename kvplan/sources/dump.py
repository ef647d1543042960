"""Writes a model as a kvplan description, to document it or to describe a relative of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from kvplan.arch.formats import Format
from kvplan.arch.layers import (
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
from kvplan.arch.model import Model

Fields = dict[str, object]


def dump(model: Model) -> str:
    """The YAML of a model's caches, without weights. It loads to the same layers.

    Layers are written as a number if they are all alike, as a pattern if they repeat, and as groups otherwise.
    """
    kinds = list(dict.fromkeys(model.layers))
    number = {layer: index for index, layer in enumerate(kinds)}
    order = [number[layer] for layer in model.layers]
    lines = ["kvplan: 1", f"name: {_scalar(model.origin.id)}"]
    if len(kinds) == 1 and len(kinds[0].caches) == 1 and not isinstance(kinds[0].caches[0], Recurrent):
        lines.append(f"layers: {len(order)}")
        lines += [
            f"{key}: {_scalar(value)}" for key, value in _layer(kinds[0]).items() if (key, value) != ("kind", "full")
        ]
    else:
        period = _period(order)
        if period is None:
            lines.append("layers:")
            lines += _groups(order, kinds)
        else:
            lines += [f"layers: {len(order)}", "pattern:", *_groups(order[:period], kinds)]
    if model.draft_layers:
        drafts = list(dict.fromkeys(model.draft_layers))
        lines += ["draft_layers:", *_groups([drafts.index(layer) for layer in model.draft_layers], drafts)]
    rest = {
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "vocab_size": model.vocab_size,
        "max_context": model.context.tokens,
        "dtype": model.dtype.name,
        "kv_dtype": None if model.kv_hint is None else f"{model.kv_hint.k.name}:{model.kv_hint.v.name}",
    }
    lines += [f"{key}: {_scalar(value)}" for key, value in rest.items() if value is not None]
    return "\n".join(lines) + "\n"


def _period(order: Sequence[int]) -> int | None:
    """Length of the shortest pattern that repeats at least twice; the last repetition may be incomplete."""
    for length in range(1, len(order) // 2 + 1):
        if all(value == order[index % length] for index, value in enumerate(order)):
            return length
    return None


def _groups(order: Sequence[int], kinds: Sequence[Layer]) -> list[str]:
    """One line for each run of equal layers."""
    lines: list[str] = []
    start = 0
    for index in range(1, len(order) + 1):
        if index == len(order) or order[index] != order[start]:
            count = {"count": index - start} if index - start > 1 else {}
            lines.append(f"  - {_flow({**count, **_layer(kinds[order[start]])})}")
            start = index
    return lines


def _layer(layer: Layer) -> Fields:
    if not layer.caches:
        return {"kind": "none"} | ({} if layer.shares_with is None else {"shares_with": layer.shares_with})
    caches = [_cache(cache) for cache in layer.caches]
    return caches[0] if len(caches) == 1 else {"caches": caches}


def _cache(cache: Cache) -> Fields:
    match cache:
        case Attention():
            fields = {"kind": cache.kind, **_heads(cache)}
            fields |= {"window": cache.window, "chunk": cache.chunk, "sinks": cache.sinks or None}
            fields |= {"indexer": _indexer(cache.indexer), "topk": cache.topk}
        case Latent():
            names = ("heads", "rank", "rope_dim", "nope_dim", "v_dim", "topk", "window")
            fields = {"kind": "latent", **{name: getattr(cache, name) for name in names}}
            fields["indexer"] = _indexer(cache.indexer)
        case Compressed():
            fields = {"kind": "compressed", "heads": cache.heads, "head_dim": cache.dim, "window": cache.window}
            fields |= {"ratio": cache.ratio, "topk": cache.topk, "state_elements": cache.state_elements or None}
            fields["indexer"] = _indexer(cache.indexer)
        case CrossAttention():
            fields = {"kind": "cross", **_heads(cache), "tokens": cache.tokens}
        case Recurrent():
            tensors = [_tensor(tensor) for tensor in cache.tensors]
            fields = {"kind": "recurrent", "law": cache.law, "tensors": tensors, "source": cache.source}
    return {key: value for key, value in fields.items() if value is not None}


def _heads(cache: Attention | CrossAttention) -> Fields:
    same = cache.k_dim == cache.v_dim
    dims = {"head_dim": cache.k_dim} if same else {"k_dim": cache.k_dim, "v_dim": cache.v_dim}
    return {"heads": cache.heads, "kv_heads": cache.kv_heads, **dims}


def _indexer(indexer: Indexer | None) -> Fields | None:
    if indexer is None:
        return None
    pool = {"pool": indexer.pool} if indexer.pool > 1 else {}
    pool |= {} if indexer.gated else {"gates": False}
    return {"dim": indexer.dim} | pool | ({} if indexer.stored == FP8_INDEX else _dtype(indexer.stored))


def _tensor(tensor: StateTensor) -> Fields:
    widths = [list(pair) for pair in tensor.widths]
    usual = {} if tensor.usual is None else {"usual_dtype": tensor.usual.name}
    return {"role": tensor.role, "rows": tensor.rows, "widths": widths} | _dtype(tensor.stored) | usual


def _dtype(stored: Format | None) -> Fields:
    return {} if stored is None else {"dtype": stored.name}


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?:[A-Za-z0-9_./-])?", re.ASCII)


def _scalar(value: object) -> str:
    if isinstance(value, dict):
        return _flow(value)
    if isinstance(value, list):
        return "[" + ", ".join(_scalar(item) for item in value) + "]"
    text = str(value)
    if isinstance(value, int) or (_PLAIN.fullmatch(text) and text.lower() not in {"null", "true", "false"}):
        return text
    return json.dumps(text, ensure_ascii=False)


def _flow(fields: Fields) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in fields.items()) + "}"
