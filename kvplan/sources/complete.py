"""Whether a checkpoint's files have all that its config describes: what they lack, in words.

A module counts as there when a tensor of its name is, or when its layer has tensors of other names that could hold its
elements. So other names, joined projections and packed elements are nothing missing; a module of which neither is found is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from kvplan.arch.weights import HEAD, ONE_GPU, Block, Weight, Weights
from kvplan.sources.modules import Key, key_of, keys_of, module_of
from kvplan.sources.places import Places, is_aside, is_draft, places
from kvplan.sources.tensors import Headers, Tensor, layer_of

PACKED = frozenset(("BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64"))
"""dtypes that quantization packs elements into, at least one bit each."""
SUPPOSED = 200
"""Part of all elements, as a divisor, that an inventory may suppose too many of: modules that no layer of a kind has are
missing only beyond it. Counts from configs are that close where they claim to be exact (tests/weights/test_corpus.py)."""
_EXPERT = re.compile(r"experts\.(\d+)\.")
MOST_NAMED = 2
HINT = "download them, or check that config.json is this checkpoint's"


@dataclass(frozen=True, slots=True)
class Gap:
    """A module that files lack. layer: its number, None at the ends. what: the module, or how many of its experts."""

    what: str
    layer: int | None
    elements: int


@dataclass(frozen=True, slots=True)
class Found:
    """What the tensors of a layer, or of the ends, hold. spare: elements that no module of the config asks for."""

    block: Block
    gaps: tuple[Gap, ...]
    spare: int

    @property
    def gone(self) -> int:
        """Elements of the modules that aren't found, and that no other tensors could hold."""
        return max(0, sum(gap.elements for gap in self.gaps) - self.spare)


def lacking(weights: Weights, headers: Headers) -> str | None:
    """What files lack of the config's modules, and what to do about it; None where nothing is found missing."""
    unheld = [name for name in headers.absent if not (is_aside(name, (), weights) or is_draft(name))]
    if unheld:
        more = f" and {len(unheld) - 1} more tensors" if len(unheld) > 1 else ""
        return f"the index names {unheld[0]}{more}, and no file has {'them' if more else 'it'}; {HINT}"
    found = places(weights, headers)
    empty = _empty(weights, found)
    if empty is not None:
        return f"{empty.name} has no elements; {HINT}"
    if found.main_bytes == weights.bytes - sum(weight.bytes_on_rank(ONE_GPU) for weight in weights.towers):
        return None
    gaps = _missing(weights, found)
    return f"no file has {_listed(gaps, weights)}; {HINT}" if gaps else None


def _empty(weights: Weights, found: Places) -> Tensor | None:
    """The first tensor without elements that the config has a module for."""
    known = {key_of(weight.name) for block in (weights.first, weights.last, *weights.layers) for weight in block}
    held = (tensor for part in (found.ends, *found.layers.values()) for tensor in part)
    return next((one for one in held if 0 in one.shape and is_weight(one) and known & set(keys_of(one.name))), None)


def is_weight(tensor: Tensor) -> bool:
    """Whether a tensor is its module's matrix, or its packed elements, rather than a scale or an order of it."""
    module, inner = module_of(tensor.name)
    return inner.removeprefix(module) in {"", ".weight", ".qweight", ".weight_packed", ".blocks"}


def _missing(weights: Weights, found: Places) -> list[Gap]:
    """Modules that neither names nor spare elements account for."""
    layers = [
        _found(block, found.layers.get(number, ()), number) for number, block in enumerate(weights.layers) if block
    ]
    if not any(found.layers.values()):
        return []  # names that say no layer: nothing can be told
    ends = _found((*weights.first, *weights.last), found.ends, None, _of_other_tensors(weights, found))
    parts = [ends, *layers]
    lost = [part for part in parts if part.gone]
    spare = sum(max(0, part.spare - sum(gap.elements for gap in part.gaps)) for part in parts)
    gone = sum(part.gone for part in lost)
    if gone <= spare:
        return []
    whole = {id(part.block) for part in layers if not part.gone}
    sure = any(part is ends or id(part.block) in whole or len(part.gaps) == _modules(part.block) for part in lost)
    if not sure and gone * SUPPOSED < weights.total:
        return []
    return [gap for part in lost for gap in part.gaps]


def _of_other_tensors(weights: Weights, found: Places) -> frozenset[str]:
    """Weights at the ends that files may keep otherwise: a head, and an embedding that its tied head stands for."""
    heads = any(keys_of(tensor.name)[0][1] == HEAD for tensor in found.aside)
    return frozenset((HEAD, *(weight.name for weight in weights.first if heads and weight.component == "embedding")))


def _modules(block: Block) -> int:
    return sum(map(_is_matrix, block))


def _is_matrix(weight: Weight) -> bool:
    """Vectors - norms, biases - are too little to be missed, and the inventory may only suppose them."""
    return len(weight.shape) > 1 and weight.parameters > 0


def _found(
    block: Block, tensors: Iterable[Tensor], layer: int | None, kept: frozenset[str] = frozenset()
) -> Found:  # fmt: skip
    """What the tensors have of a block. kept: names of weights that aren't missed."""
    wanted: dict[Key, int] = defaultdict(int)
    for weight in block:
        wanted[key_of(weight.name)] += weight.parameters
    held: dict[Key, list[Tensor]] = defaultdict(list)
    spare = 0
    for tensor in tensors:
        keys = [key for key in keys_of(tensor.name) if key in wanted]
        for key in keys:
            held[key].append(tensor)
        spare += 0 if keys else capacity(tensor)
    spare += sum(max(0, _plain(held[key]) - wanted[key]) for key in held if not _shares(held[key]))
    gaps = tuple(
        gap
        for weight in block
        if _is_matrix(weight) and weight.name not in kept and (gap := _gap(weight, held[key_of(weight.name)], layer))
    )
    return Found(block, gaps, spare)


def _gap(weight: Weight, held: Sequence[Tensor], layer: int | None) -> Gap | None:
    if not held:
        return Gap(weight.name, layer, weight.parameters)
    numbers = {int(match[1]) for tensor in held if (match := _EXPERT.search(tensor.name))}
    if not numbers or len(numbers) >= weight.copies:
        return None
    missing = weight.copies - len(numbers)
    return Gap(f"{missing} of {weight.copies} experts", layer, weight.parameters // weight.copies * missing)


def _shares(tensors: Sequence[Tensor]) -> bool:
    """Whether one of them belongs to several modules."""
    return any(len(keys_of(tensor.name)) > 1 for tensor in tensors)


def _plain(tensors: Sequence[Tensor]) -> int:
    """Elements of tensors in plain numbers; 0 where some are packed, so that their number isn't known."""
    return 0 if any(one.dtype in PACKED for one in tensors) else sum(prod(one.shape) for one in tensors)


def capacity(tensor: Tensor) -> int:
    """Elements that a tensor can hold at most: packed ones take a bit or more."""
    return tensor.bytes * 8 if tensor.dtype in PACKED else prod(tensor.shape)


def _listed(gaps: Sequence[Gap], weights: Weights) -> str:
    """`self_attn.k_proj in all 4 layers and layers 2 and 3`."""
    by_layer: dict[int | None, list[Gap]] = defaultdict(list)
    for gap in gaps:
        by_layer[gap.layer].append(gap)
    whole = [number for number, some in by_layer.items() if number is not None and len(some) == _modules(weights.layers[number])]  # fmt: skip
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


def layers_text(numbers: Sequence[int]) -> str:
    """`layer 3`, `layers 0 and 3`, `layers 4 to 7, 9 and 12`."""
    runs = [f"{first} to {last}" if last > first + 1 else " and ".join(map(str, range(first, last + 1))) for first, last in _runs(numbers)]  # fmt: skip
    text = " and ".join(runs) if len(runs) <= MOST_NAMED else f"{', '.join(runs[:-1])} and {runs[-1]}"
    return f"layer{'s' * (len(numbers) > 1)} {text}"


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for number in sorted(numbers):
        if last >= 0 and number == last + 1:
            last = number
            continue
        if last >= 0:
            yield first, last
        first = last = number
    if last >= 0:
        yield first, last


def contradictions(weights: Weights, headers: Headers) -> tuple[str, ...]:
    """Where files have other shapes, or more layers, than the config says; counts that follow from it aren't theirs then."""
    found = places(weights, headers)
    ends = _unlike((*weights.first, *weights.last), found.ends)
    layers = (_unlike(block, found.layers.get(number, ())) for number, block in enumerate(weights.layers))
    unlike = dict.fromkeys(said for part in (ends, *layers) for said in part)
    words = [f"{said}{' and others' * (len(unlike) > 1)}" for said in list(unlike)[:1]]
    numbers = {number for tensor in found.beyond if (number := layer_of(tensor.name)) is not None}
    if numbers:
        words.append(f"{layers_text(sorted(numbers))} where the config has {len(weights.layers)}")
    return tuple(words)


def _unlike(block: Block, tensors: Iterable[Tensor]) -> list[str]:
    """Matrices of other shapes than the config's, of a layer or the ends whose tensors are all plain."""
    matrices = [tensor for tensor in tensors if is_weight(tensor)]
    if any(tensor.dtype in PACKED for tensor in matrices):
        return []
    apart = sum(prod(tensor.shape) for tensor in matrices) - sum(weight.parameters for weight in block)
    held: dict[Key, list[Tensor]] = defaultdict(list)
    for tensor in matrices:
        for key in keys_of(tensor.name):
            held[key].append(tensor)
    times: dict[Key, int] = defaultdict(int)
    for weight in block:
        times[key_of(weight.name)] += 1
    return [
        said
        for weight in block
        if _is_matrix(weight) and times[key_of(weight.name)] == 1
        if (said := _other_shape(weight, held[key_of(weight.name)], apart))
    ]


def _other_shape(weight: Weight, held: Sequence[Tensor], apart: int) -> str | None:
    """How a weight's own tensor differs.

    apart: elements that its layer has more or fewer: half of the difference at least, or another module has them.
    """
    if not held or _shares(held):
        return None
    more = (sum(prod(tensor.shape) for tensor in held) if len(held) > 1 else prod(held[0].shape)) - weight.parameters
    if not more or more * apart < 0 or 2 * abs(apart) < abs(more):
        return None
    sizes = (held[0].shape, weight.shape if len(held) > 1 or weight.copies == 1 else (weight.copies, *weight.shape))
    theirs, ours = (" x ".join(map(str, size)) for size in sizes)
    return f"{weight.name} of {theirs} where the config has {ours}"
