"""Small relatives of a model's parts, for recomputing everything in 32 bit: the same kinds, few narrow heads. Pure."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.formats import FORMATS
from kvplan.verify.parts import (
    AttentionPart,
    Blueprint,
    ConvPart,
    DeltaPart,
    DensePart,
    FeedForward,
    Kept,
    LatentPart,
    LayerPlan,
    MambaPart,
    Mixer,
)

HIDDEN = 48
TOKENS = 21
"""More than every small window, chunk and top k, and a multiple of none of them."""


def small(part: Mixer) -> Mixer:
    """The same kind with small dimensions: windows of 5, chunks of 4, a top k of 6."""
    match part:
        case AttentionPart():
            kv_heads = min(part.kv_heads, 2)
            group = min(max(part.heads // part.kv_heads, 1), 2)
            return replace(
                part, heads=kv_heads * group, kv_heads=kv_heads, k_dim=32, v_dim=32 if part.k_dim == part.v_dim else 64,
                window=None if part.window is None else 5, chunk=None if part.chunk is None else 4, sinks=min(part.sinks, 2),
            )  # fmt: skip
        case LatentPart():
            indexer = None if part.indexer is None else replace(part.indexer, heads=16, dim=32)
            return replace(
                part, heads=2, rank=48, rope_dim=16, nope_dim=16, v_dim=16, indexer=indexer,
                q_rank=None if part.q_rank is None else 24, topk=None if part.topk is None or indexer is None else 6,
                window=None if part.window is None else 5,
            )  # fmt: skip
        case DeltaPart():
            repeat = min(part.v_heads // part.k_heads, 2)
            return replace(part, k_heads=2, v_heads=2 * repeat, k_dim=16, v_dim=24, kept=_WIDE)
        case MambaPart():
            groups = min(part.groups, 2)
            return replace(part, heads=2 * groups, head_dim=8, groups=groups, state=16, kept=_WIDE)
        case ConvPart():
            return replace(part, channels=40)


_WIDE = Kept("fp32", "in 32 bit: what is compared is the algorithm")


def small_feed_forward(part: FeedForward) -> FeedForward:
    """The same kind, narrow, with at most eight experts."""
    if isinstance(part, DensePart):
        return replace(part, width=40)
    experts = min(part.experts, 8)
    return replace(
        part, experts=experts, picked=min(part.picked, max(1, experts // 2)), width=24, shared=24 if part.shared else 0,
        latent=None if part.latent is None else 32,
    )  # fmt: skip


def small_stack(plan: Blueprint) -> Blueprint:
    """One layer for each distinct mixer and feed-forward. Layers that share follow the first that they can share with."""
    layers: list[LayerPlan] = []
    forwards = [small_feed_forward(part) for part in plan.feed_forwards]
    for number, part in enumerate(plan.mixers):
        made = small(part)
        if isinstance(made, AttentionPart) and made.shares is not None:
            made = replace(made, shares=_owner(layers, made))
        following = (forwards[number % len(forwards)],) if forwards else ()
        layers.append(LayerPlan((made,), following, norms=1 + len(following)))
    layers += [LayerPlan((), (part,), norms=1) for part in forwards[len(layers) :]]
    return Blueprint(HIDDEN, 64, tied=plan.tied, dtype=FORMATS["fp32"], layers=tuple(layers), head=64)


def _owner(layers: list[LayerPlan], sharing: AttentionPart) -> int | None:
    """Index of the first layer whose cache the part can read; None for a cache of its own if there is none."""
    for place, layer in enumerate(layers):
        for part in layer.mixers:
            same = isinstance(part, AttentionPart) and part.shares is None and part.k_dim == sharing.k_dim
            if (
                same
                and isinstance(part, AttentionPart)
                and (part.window, part.chunk) == (sharing.window, sharing.chunk)
            ):
                return place
    return None
