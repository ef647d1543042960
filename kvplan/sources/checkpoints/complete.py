"""Whether a checkpoint's files have everything that its config describes, and what they lack, in words.

A module is there if its own matrix is, or if its layer has matrices of other names that could be it, because
projections may be joined or renamed. Scales alone are no module, and packed elements without scales are none either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kvplan.arch.weights import HEAD, Block, Weight, Weights, matrix
from kvplan.sources.checkpoints.modules import Key, key_of
from kvplan.sources.checkpoints.pieces import WIDTHS, WORDS, Piece, capacity, in_few_bits
from kvplan.sources.checkpoints.places import Places, may_lack
from kvplan.sources.checkpoints.tensors import Tensor
from kvplan.text import layers_text

SUPPOSED = 200
"""A module that no layer of its kind has is missing only if it is more than 1 / SUPPOSED of all elements.

Counts from configs are that close where they claim to be exact (tests/weights/test_corpus.py), so the inventory may
assume that many too many.
"""
PLAIN_BITS = 16
MOST_NAMED = 2
HINT = "download them, or check that config.json is this checkpoint's"


@dataclass(frozen=True, slots=True)
class Gap:
    """What the files lack of a module.

    layer: its number, None outside the layers. what: the module, some of its experts, or its scales. elements: number
    of elements or scales that are lacking. shape: of the matrix, None for scales and for some of several experts.
    """

    what: str
    layer: int | None
    elements: int
    shape: tuple[int, ...] | None = None
    scales: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a layer, or the rest of the model, lacks by name.

    gaps: modules for which no matrix of another name has the shape. scales: missing from packed matrices. others:
    matrices whose name or shape belongs to no module of the config. spare: elements that those can hold.
    """

    block: Block
    gaps: tuple[Gap, ...]
    scales: tuple[Gap, ...]
    others: tuple[Tensor, ...]
    spare: int

    @property
    def gone(self) -> int:
        """Elements that no matrix of another name can account for, and scales."""
        lost, scales = (sum(gap.elements for gap in gaps) for gaps in (self.gaps, self.scales))
        return max(0, lost - self.spare) + scales

    @property
    def lost(self) -> tuple[Gap, ...]:
        """The gaps behind `gone`."""
        gone = sum(gap.elements for gap in self.gaps) > self.spare
        return (*(self.gaps if gone else ()), *self.scales)


def lacking(found: Places) -> str | None:
    """What the files lack of the config's modules, and what to do about it; None if nothing is missing."""
    weights = found.weights
    unheld = [name for name in found.headers.absent if not may_lack(name, weights)]
    if unheld:
        more = f" and {len(unheld) - 1} more tensors" if len(unheld) > 1 else ""
        return f"the index names {unheld[0]}{more}, and no file has {'them' if more else 'it'}; {HINT}"
    empty = _empty(found)
    if empty is not None:
        return f"{empty.name} has no elements; {HINT}"
    if found.main_bytes == weights.bytes - sum(weight.bytes for weight in weights.towers):
        return None
    gaps = _missing(found)
    return f"no file has {_listed(gaps, weights)}; {HINT}" if gaps else None


def _empty(found: Places) -> Tensor | None:
    """The first tensor without elements where the config has a module."""
    weights = found.weights
    known = {key_of(weight.name) for block in (weights.first, weights.last, *weights.layers) for weight in block}
    held = (one for part in (found.ends, *found.layers.values()) for one in part if 0 in one.tensor.shape)
    return next((one.tensor for one in held if one.has_elements and known.intersection(one.module.keys)), None)


def _missing(found: Places) -> list[Gap]:
    """What is missing by name and that matrices of other names don't account for."""
    weights = found.weights
    if not found.layers:
        return []  # nothing can be told from names without layers
    least = min((weight.stored.bits for block in weights.layers for weight in block), default=PLAIN_BITS)
    least = least if least < PLAIN_BITS else FEWEST_BITS
    layers = [
        _found(block, found.layers.get(number, ()), number, least)
        for number, block in enumerate(weights.layers)
        if block
    ]
    ends = _found((*weights.first, *weights.last), found.ends, None, least, _of_other_tensors(found))
    parts = _shared_out((ends, *layers))
    whole = {id(part.block): part for part in parts if not part.gone}
    lost = [part for part in parts if part.gone]
    sure = any(part.block is ends.block or id(part.block) in whole or _is_sure(part) for part in lost)
    if not sure and (weights.supposed or sum(part.gone for part in lost) * SUPPOSED < weights.total):
        return []
    return [gap for part in lost for gap in _own(part, whole.get(id(part.block)))]


def _shared_out(parts: Sequence[Found]) -> list[Found]:
    """The same without gaps that spare matrices of complete layers close, because layers may share a matrix."""
    left: list[Tensor] = []
    for part in parts if any(part.gone for part in parts) else ():
        gaps, others = _unclaimed(part.gaps, part.others, _fits)
        left += () if part.gone or gaps else (one for one in others if len(one.shape) > 1)
    result = []
    for part in parts:
        if part.gone and left:
            gaps, left = _unclaimed(part.gaps, left, _fits)
            result.append(replace(part, gaps=tuple(gaps)))
        else:
            result.append(part)
    return result


FEWEST_BITS = 2
"""Bits of a packed element if the config doesn't describe packing."""


def _is_sure(part: Found) -> bool:
    """Whether what a layer lacks can't be a mistake of the inventory: all of its elements, or scales."""
    return any(gap.scales for gap in part.lost) or len(part.gaps) >= _modules(part.block)


def _own(part: Found, whole: Found | None) -> Sequence[Gap]:
    """What a layer lacks by name, except what all layers of its kind lack too, which have it under another name."""
    elsewhere = {gap.what for gap in whole.gaps} if whole else set()
    return [gap for gap in part.lost if gap.what not in elsewhere] or part.lost


def _of_other_tensors(found: Places) -> frozenset[str]:
    """Weights outside the layers that files may hold elsewhere.

    These are the head, an embedding that its tied head stands for, and what a layer has for all (T5's first layer has
    the position table).
    """
    heads = any(one.module.keys[0][1] == HEAD for one in found.aside)
    inside = {key for pieces in found.layers.values() for one in pieces for key in one.module.keys}
    weights = found.weights
    embeddings = (weight.name for weight in weights.first if heads and weight.component == "embedding")
    within = (weight.name for weight in (*weights.first, *weights.last) if key_of(weight.name) in inside)
    return frozenset((HEAD, *embeddings, *within))


def _modules(block: Block) -> int:
    return sum(map(is_matrix, block))


def is_matrix(weight: Weight) -> bool:
    """Whether a weight is a matrix. Vectors (norms, biases) are too small to miss, and may only be assumed."""
    return len(weight.shape) > 1 and weight.parameters > 0


def _found(
    block: Block, pieces: Iterable[Piece], layer: int | None, least_bits: int, kept: frozenset[str] = frozenset()
) -> Found:
    """What the tensors lack of a block. least_bits: of a packed element. kept: names of weights not to look for."""
    wanted: dict[Key, list[Weight]] = defaultdict(list)
    for weight in block:
        wanted[key_of(weight.name)].append(weight)
    held: dict[Key, list[Piece]] = defaultdict(list)
    scaled: dict[str, set[int | None]] = defaultdict(set)
    others: list[Piece] = []
    for one in pieces:
        known = [key for key in one.module.keys if key in wanted]
        if one.module.part == "scale":
            scaled[one.module.name].add(one.expert)
        if one.has_elements:
            for key in known:
                held[key].append(one)
            if not known:
                others.append(one)
    matrices = [weight for weight in block if is_matrix(weight) and weight.name not in kept]
    bare = _bare(matrices, held, others, scaled, layer)
    for key, weights in wanted.items():
        others += _surplus(weights, held[key])
    gaps, unnamed = _unclaimed(_gaps(matrices, held, layer), (one.tensor for one in others), _has_shape)
    spare = sum(capacity(one, least_bits) for one in unnamed)
    return Found(block, tuple(gaps), tuple(bare), tuple(unnamed), spare)


def _surplus(weights: Sequence[Weight], held: Sequence[Piece]) -> Sequence[Piece]:
    """Tensors beyond those that weights of one name need.

    Attention to an encoder may have the name of self-attention.
    """
    if len(held) <= len(weights) or held[0].expert is not None:
        return ()
    shapes, names = {tuple(sorted(weight.shape)) for weight in weights}, {weight.name for weight in weights}
    return sorted(held, key=lambda one: (one.module.name not in names, tuple(sorted(one.tensor.shape)) not in shapes))[
        len(weights) :
    ]


def _unclaimed(
    gaps: Iterable[Gap], others: Iterable[Tensor], fits: Callable[[Tensor, Gap], bool]
) -> tuple[list[Gap], list[Tensor]]:
    """Gaps that no matrix of another name fills, and the matrices left over."""
    left, more = list(gaps), []
    for one in others:
        same = next((gap for gap in left if fits(one, gap)), None)
        if same is None:
            more.append(one)
        else:
            left.remove(same)
    return left, more


def _has_shape(tensor: Tensor, gap: Gap) -> bool:
    """Whether a matrix of another name has the missing shape, or its transpose."""
    return gap.shape is not None and tensor.dtype not in WORDS and sorted(gap.shape) == sorted(tensor.shape)


def _fits(tensor: Tensor, gap: Gap) -> bool:
    """The same, by the number of bytes if the elements are packed."""
    if gap.shape is not None and tensor.dtype in WORDS:
        return any(gap.elements * bits == tensor.bytes * 8 for bits in WIDTHS)
    return _has_shape(tensor, gap)


def _gaps(matrices: Sequence[Weight], held: Mapping[Key, Sequence[Piece]], layer: int | None) -> list[Gap]:
    """What is lacking of each matrix: all of it, or some of its experts."""
    found: list[Gap] = []
    partly: list[tuple[Weight, frozenset[int]]] = []
    for weight in matrices:
        pieces = held[key_of(weight.name)]
        if not pieces:
            shape = weight.shape if weight.copies == 1 else (weight.copies, *weight.shape)
            found.append(Gap(weight.name, layer, weight.parameters, shape))
            continue
        numbers = frozenset(one.expert for one in pieces if one.expert is not None)
        if numbers and len(numbers) < weight.copies:
            partly.append((weight, numbers))
    together = len({numbers for _, numbers in partly}) == 1 and len(partly) == sum(weight.routed for weight in matrices)
    for weight, numbers in partly:
        missing = weight.copies - len(numbers)
        experts = f"{missing} of {weight.copies} experts"
        what = experts if together else f"{weight.last} of {experts}"
        found.append(Gap(what, layer, weight.parameters // weight.copies * missing))
    return found


def _bare(
    matrices: Sequence[Weight], held: Mapping[Key, Sequence[Piece]], others: Sequence[Piece],
    scaled: Mapping[str, set[int | None]], layer: int | None,
) -> list[Gap]:  # fmt: skip
    """Scales that packed matrices lack although the config describes scales of groups or rows.

    others: matrices of other names. scaled: experts with scales, by the name of their module.
    """
    found: list[Gap] = []
    for weight in matrices:
        if scale_count(weight):
            found += _bare_of(weight, _without(held[key_of(weight.name)], others, scaled), layer)
    quantizable = [weight for weight in matrices if weight.quantizable]
    nameless = any(not held[key_of(weight.name)] for weight in quantizable)  # so that others are what it asks for
    if nameless and all(map(scale_count, quantizable)):
        found += [Gap(f"the scales of {name}", layer, 1, scales=True) for name in _without(others, others, scaled)]
    return found


def _without(
    pieces: Iterable[Piece], others: Iterable[Piece], scaled: Mapping[str, set[int | None]]
) -> dict[str, set[int | None]]:
    """Experts, by the name of their module, with a packed matrix but neither scales nor another tensor beside it."""
    found: dict[str, set[int | None]] = defaultdict(set)
    for one in pieces:
        beside = scaled.get(one.module.name, ())
        if len(one.tensor.shape) > 1 and in_few_bits(one) and one.expert not in beside and None not in beside:
            found[one.module.name].add(one.expert)
    names = {one.module.name for one in others if one.module.part != "bias"} if found else ()
    return {
        own: experts
        for own, experts in found.items()
        if not any(name != own and name.startswith(own) for name in names)
    }


def _bare_of(weight: Weight, without: Mapping[str, set[int | None]], layer: int | None) -> Iterator[Gap]:
    """Scales that a weight's own matrices lack, counted over the experts without any."""
    for experts in without.values():
        whole = None in experts or len(experts) == weight.copies
        name = weight.name if whole else f"{weight.last} of {len(experts)} of {weight.copies} experts"
        count = scale_count(weight) * (weight.copies if whole else len(experts))
        yield Gap(f"the scales of {name}", layer, count, scales=True)


def scale_count(weight: Weight) -> int:
    """Scales that one copy of a matrix has for groups or rows in the config's format; 0 if it has none."""
    stored, (rows, columns) = weight.stored, matrix(weight.shape)
    if stored.group and stored.group_bits:
        return -(-rows // stored.group_rows) * -(-columns // stored.group)
    return rows if stored.row_bits else 0


def _listed(gaps: Sequence[Gap], weights: Weights) -> str:
    """The gaps in words: `self_attn.k_proj in all 4 layers and layers 2 and 3`."""
    by_layer: dict[int | None, list[Gap]] = defaultdict(list)
    for gap in gaps:
        by_layer[gap.layer].append(gap)
    whole = [number for number, some in by_layer.items() if number is not None and sum(not gap.scales for gap in some) == _modules(weights.layers[number])]  # fmt: skip
    places_of: dict[str, list[int]] = defaultdict(list)
    for gap in gaps:
        if gap.layer not in whole:
            places_of[gap.what] += [] if gap.layer is None or gap.layer in places_of[gap.what] else [gap.layer]
    words = [layers_text(whole)] if whole else []
    words += [_text(what, numbers, len(weights.layers)) for what, numbers in places_of.items()]
    more = len(words) - MOST_NAMED
    return " and ".join(words[:MOST_NAMED]) + (f" and {more} more modules" if more > 0 else "")


def _text(what: str, numbers: Sequence[int], count: int) -> str:
    if not numbers:
        return what
    return f"{what} in {f'all {count} layers' if len(numbers) == count else layers_text(numbers)}"
