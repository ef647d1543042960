"""Which layers to build if not all of a model fit: one of every kind first, then the rest in order. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.model import DESCRIBED, Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import DTYPES, Weights
from kvplan.errors import Unsupported
from kvplan.units import MIB, format_bytes
from kvplan.verify.mixers import cannot_build, lacks_weights

FOR_WANT_OF_MEMORY = "for want of memory"


@dataclass(frozen=True, slots=True)
class Sizing:
    """The layers to build.

    keep: their indices, ascending. skipped: reasons for leaving layers out, with the number of layers each concerns.
    unseen: kinds of layers that could be built and of which none is, by the first of each.
    """

    keep: tuple[int, ...]
    skipped: tuple[tuple[str, int], ...] = ()
    unseen: tuple[str, ...] = ()


def choose(model: Model, tp: int, budget: int | None, limit: int | None = None, beside: int = 0) -> Sizing:
    """As many layers as fit with their weights into `budget` bytes on one rank, at most `limit`.

    beside: bytes needed besides, for messages.

    Raises: Unsupported if no layer can be built, or none fits.
    """
    able, reasons = _able(model)
    if not able:
        raise Unsupported(
            f"verify can't build any layer of {model.origin.id}", cause="; ".join(reasons),
            hint=f"kvplan verify {model.origin.id} --meta compares it with transformers, if that has such a class"
            if model.family != DESCRIBED
            else "complete the description, or give a config.json, which --meta can compare",
        )  # fmt: skip
    first = _one_of_each(model, able)
    keep = _within(model, list(dict.fromkeys((*first, *able))), tp, budget, limit, beside)
    wanted = min(len(able), limit or len(able))
    left_out = {FOR_WANT_OF_MEMORY: wanted - len(keep), "as asked": len(able) - wanted}
    reasons |= {reason: count for reason, count in left_out.items() if count}
    unseen = tuple(_named(model, index) for index in first if index not in keep)
    return Sizing(tuple(sorted(keep)), tuple(reasons.items()), unseen)


def bytes_of_each(model: Model, tp: int, limit: int | None = None) -> int:
    """Bytes on one rank of one layer of every kind that can be built, of at most `limit` layers."""
    first = _one_of_each(model, _able(model)[0])[:limit]
    return sum(layer_bytes(model.weights, index, tp, model.dtype.name) for index in first)


def _able(model: Model) -> tuple[list[int], dict[str, int]]:
    """Layers that can be built, and reasons why others can't be, with the number of layers each concerns."""
    able: list[int] = []
    reasons: dict[str, int] = {}
    for index in range(len(model.layers)):
        reason = _reason(model, index)
        if reason is None:
            able.append(index)
        else:
            reasons[reason] = reasons.get(reason, 0) + 1
    return able, reasons


def _reason(model: Model, index: int) -> str | None:
    layer = model.layers[index]
    caches = layer.caches if layer.shares_with is None else model.layers[layer.shares_with].caches
    block = None if model.weights is None else model.weights.layers[index]
    for cache in caches:
        reason = cannot_build(cache) or (None if block is None else lacks_weights(cache, block))
        if reason is not None:
            return reason
    return None


def _one_of_each(model: Model, able: list[int]) -> list[int]:
    """The first layer of each kind; the owner of a shared cache comes before those that share it."""
    weights = model.weights
    seen: set[object] = set()
    first: list[int] = []
    for index in able:
        layer = model.layers[index]
        block = None if weights is None else id(weights.layers[index])
        kind = (layer.caches, layer.shares_with is None, block)
        if kind not in seen:
            seen.add(kind)
            first += [] if layer.shares_with is None else [layer.shares_with]
            first.append(index)
    return list(dict.fromkeys(first))


def _named(model: Model, index: int) -> str:
    """The kind of a layer in words: `latent with experts, as layer 3`."""
    layer = model.layers[index]
    caches = [cache.kind for cache in layer.caches] if layer.shares_with is None else ["shared cache"]
    block = () if model.weights is None else model.weights.layers[index]
    experts = " with experts" if any(weight.picked for weight in block) else ""
    return f"{' beside '.join(caches) or 'no cache'}{experts}, as layer {index}"


def _within(model: Model, order: list[int], tp: int, budget: int | None, limit: int | None, beside: int) -> list[int]:
    keep: list[int] = []
    taken = 0
    for index in order[:limit]:
        source = model.layers[index].shares_with
        if source is not None and source not in keep:
            continue
        taken += layer_bytes(model.weights, index, tp, model.dtype.name)
        if budget is not None and taken > budget:
            break
        keep.append(index)
    if not keep:
        raise Unsupported(
            f"no layer of {model.origin.id} fits into {format_bytes(budget or 0)}",
            cause=f"the first takes {format_bytes(taken)} of weights" + (f" on each of {tp} ranks" if tp > 1 else ""),
            hint=f"give at least --memory {-(-(taken + beside) // MIB)}MiB, or build one rank's share: --tp {2 * tp} --rank 0",
        )
    return keep


def layer_bytes(weights: Weights | None, index: int, tp: int, dtype: str) -> int:
    """Bytes of one layer's weights on one rank, all in `dtype`."""
    if weights is None:
        return 0
    bits = DTYPES[dtype].bits if dtype in DTYPES else 16
    total = 0
    for weight in weights.layers[index]:
        shape, copies = weight.on_rank(Parallel(tp=tp))
        elements = copies
        for extent in shape:
            elements *= extent
        total += elements * bits // 8
    return total
