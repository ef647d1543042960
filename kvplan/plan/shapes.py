"""A model's cache under another kind of attention: MHA, GQA, MQA, MLA, or with a window.

The textbook's question, answered for real layers: heads and widths stay, only what is cached changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import Attention, Cache, Compressed, CrossAttention, Latent
from kvplan.arch.model import Model, map_caches
from kvplan.errors import UnknownName, UsageError

KINDS = ("mha", "gqa", "mqa", "mla")

GQA_HEADS = 8
"""Usual number of KV heads: Llama 2 and 3, Mistral, Qwen."""

MLA_RANK, MLA_ROPE = 512, 64
"""Latent and rotary key of DeepSeek-V2 and V3 (arXiv:2405.04434), for a model without a latent of its own."""


def attention_label(model: Model) -> str:
    """Names of its kinds of attention, each once: `gqa`, `mla`, `gqa + gated delta net`."""
    names = dict.fromkeys(_label(cache) for cache, _ in model.distinct)
    return " + ".join(names) or "none"


def one_row(model: Model, kv: KvFormat) -> tuple[str, ...]:
    """A remark if a format for values was given to a model that stores none separately."""
    used = model.in_use(kv)
    if used == kv:
        return ()
    said = f"{model.origin.id} keeps keys and values as one latent, stored as keys are"
    return (f"{said}: all of it is {used.k.name}, nothing is {kv.v.name}.",)


def as_attention(model: Model, kind: str) -> Model:
    """The same model with every attention layer cached as `kind`; other layers stay as they are.

    Windows and chunks stay too. MLA uses the model's own latent, or DeepSeek's 512 + 64.

    Raises: UnknownName; UsageError if the config doesn't describe the heads, or there is no attention to replace.
    """
    changes: dict[str, Callable[[Cache], Cache]] = {
        "mha": lambda cache: _with_heads(cache, model, lambda heads, _: heads),
        "gqa": lambda cache: _with_heads(cache, model, _grouped),
        "mqa": lambda cache: _with_heads(cache, model, lambda _heads, _own: 1),
        "mla": _latent,
    }
    if kind not in changes:
        raise UnknownName(f"{kind!r} is not an attention kind", hint="known: " + ", ".join(KINDS))
    if model.has(Compressed):
        raise UsageError(
            f"{model.origin.id} has compressed attention, which has no {kind} of the same shape",
            hint="leave --attention out, or the model",
        )
    if not model.has(Attention, Latent):
        raise UsageError(
            f"{model.origin.id} has no attention that could be replaced by {kind}",
            cause=f"its layers keep: {attention_label(model)}",
            hint="leave --attention out, or the model",
        )
    return map_caches(model, changes[kind])


def shown_kinds(model: Model) -> tuple[str, ...]:
    """The kinds to show beside the model's own: those that its config describes, and MLA only for MLA models."""
    if not model.has(Attention, Latent):
        return ()
    if any(isinstance(cache, Attention | Latent) and not _describes_heads(cache) for cache, _ in model.distinct):
        return ()
    return KINDS if model.has(Latent) else KINDS[:3]


def keep_recent(model: Model, window: int, sinks: int) -> Model:
    """The model with every attention layer cut to the first `sinks` and the last `window` tokens (StreamingLLM).

    Lossy: other tokens are lost. Source: arXiv:2309.17453.

    Raises: UsageError for latent and compressed attention, for which StreamingLLM isn't defined.
    """

    def cut(cache: Cache) -> Cache:
        if isinstance(cache, Latent | Compressed):
            raise UsageError(
                f"{model.origin.id} caches latents, and --window works only on keys and values",
                hint="leave --window out; kvplan compare MODEL --attention mha,mla shows what the latent already saves",
            )
        if not isinstance(cache, Attention) or (cache.cap is not None and cache.cap <= window + sinks):
            return cache
        return replace(cache, window=window, sinks=sinks, chunk=None)

    return map_caches(model, cut)


def _label(cache: Cache) -> str:
    if isinstance(cache, Attention):
        if cache.kv_heads == 1:
            return "mqa"
        return "mha" if cache.kv_heads == cache.heads else "gqa"
    if isinstance(cache, Latent):
        return "mla"
    if isinstance(cache, Compressed):
        return "compressed"
    return "cross" if isinstance(cache, CrossAttention) else cache.law


def _describes_heads(cache: Attention | Latent) -> bool:
    if isinstance(cache, Attention):
        return cache.heads is not None
    return None not in (cache.heads, cache.nope_dim, cache.v_dim)


def _grouped(heads: int, own: int | None) -> int:
    """The model's own number of KV heads if it is grouped; else eight, or the largest smaller divisor of its heads."""
    if own is not None and 1 < own < heads:
        return own
    return next(groups for groups in range(min(GQA_HEADS, heads), 0, -1) if heads % groups == 0)


def _with_heads(cache: Cache, model: Model, kv_heads: Callable[[int, int | None], int]) -> Cache:
    if not isinstance(cache, Attention | Latent):
        return cache
    if cache.heads is None or (isinstance(cache, Latent) and (cache.nope_dim is None or cache.v_dim is None)):
        raise UsageError(
            f"{model.origin.id} doesn't say how many heads it has, or how wide they are",
            cause="other attention kinds of the same shape need them",
            hint="leave --attention out, or describe its heads in a kvplan YAML: docs/model-files.md",
        )
    if isinstance(cache, Attention):
        return replace(cache, kv_heads=kv_heads(cache.heads, cache.kv_heads), indexer=None, topk=None)
    k_dim, v_dim = (cache.nope_dim or 0) + cache.rope_dim, cache.v_dim or 0
    return Attention(cache.heads, kv_heads(cache.heads, None), k_dim, v_dim)


def _latent(cache: Cache) -> Cache:
    if not isinstance(cache, Attention):
        return cache
    return Latent(cache.heads, MLA_RANK, MLA_ROPE, cache.k_dim, cache.v_dim)
