"""Models, cache formats and kinds of attention side by side, at one length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import Latent
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.plan.shapes import MLA_RANK, MLA_ROPE, as_attention, attention_label, one_row


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one format under one kind of attention.

    bytes and the figures per token: of the whole model, one copy. on_gpu: bytes on the fullest GPU.
    """

    model: Model
    attention: str
    kv: KvFormat
    tokens: int
    bytes_per_token: int
    bytes_per_token_full: int
    fixed: int
    bytes: int
    on_gpu: int
    notes: tuple[str, ...]


def compare(
    models: Iterable[Model],
    tokens: int,
    formats: tuple[KvFormat | None, ...],
    attentions: tuple[str, ...],
    parallel: Parallel,
) -> tuple[Row, ...]:
    """A row for each combination. attentions: empty for each model's own.

    Raises: CannotSplit; UnknownName for a kind of attention; UsageError for a format that can't store its heads.
    """
    return tuple(
        _row(model, tokens, kv or model.kv_auto, attention, parallel)
        for model in models
        for attention in attentions or (None,)
        for kv in formats
    )


def _row(model: Model, tokens: int, kv: KvFormat, attention: str | None, parallel: Parallel) -> Row:
    shaped = model if attention is None else as_attention(model, attention)
    curve = shaped.curve(kv)
    return Row(
        model=model,
        attention=attention or attention_label(model),
        kv=shaped.in_use(kv),
        tokens=tokens,
        bytes_per_token=curve.bytes_per_token,
        bytes_per_token_full=curve.bytes_per_token_full,
        fixed=curve.fixed_bytes,
        bytes=curve.bytes_at(tokens),
        on_gpu=max(rank.bytes_at(tokens) for rank in shaped.rank_curves(parallel, kv)),
        notes=_notes(model, attention) + one_row(shaped, kv),
    )


def _notes(model: Model, attention: str | None) -> tuple[str, ...]:
    if attention != "mla" or model.has(Latent):
        return ()
    return (
        f"{model.origin.id} has no latent of its own: mla is shown with DeepSeek's, {MLA_RANK} + {MLA_ROPE} elements.",
    )
