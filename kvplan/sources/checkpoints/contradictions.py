"""Contradictions between files and config: other shapes, or more layers or experts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import prod

from kvplan.arch.weights import Block, Weight
from kvplan.sources.checkpoints.complete import PLAIN_BITS, is_matrix
from kvplan.sources.checkpoints.modules import Key, key_of
from kvplan.sources.checkpoints.pieces import WIDTHS, WORDS, Piece, elements
from kvplan.sources.checkpoints.places import Places
from kvplan.text import layers_text

ROOM = 64
"""Padding of a packed matrix's last words may take up to 1 / ROOM of it."""
MATRIX = 2
Shape = tuple[int, ...]


def contradictions(found: Places) -> tuple[str, ...]:
    """What differs from the config, in words. Counts from the config aren't those of the files then."""
    weights = found.weights
    ends = _unlike((*weights.first, *weights.last), found.ends)
    layers = (_unlike(block, found.layers.get(number, ())) for number, block in enumerate(weights.layers))
    unlike = dict.fromkeys(said for part in (ends, *layers) for said in part)
    words = [f"{said}{' and others' * (len(unlike) > 1)}" for said in list(unlike)[:1]]
    if found.beyond:
        words.append(f"{layers_text(sorted(found.beyond))} where the config has {len(weights.layers)}")
    return tuple(words)


def _unlike(block: Block, pieces: Iterable[Piece]) -> list[str]:
    """Matrices with shapes other than the config's, of layers where the elements of all tensors are known."""
    by_key: dict[Key, list[Weight]] = defaultdict(list)
    for weight in block:
        by_key[key_of(weight.name)].append(weight)
    held: dict[Key, list[Piece]] = defaultdict(list)
    apart = -sum(weight.parameters for weight in block)
    for one in pieces:
        if not one.has_elements:
            continue
        count = elements(one.tensor, _bits(one, by_key))
        if count is None:
            return []
        apart += count
        for key in one.module.keys:
            held[key].append(one)
    alone = [weight for weight in block if is_matrix(weight) and len(by_key[key_of(weight.name)]) == 1]
    return [said for weight in alone if (said := _other(weight, held[key_of(weight.name)], apart))]


def _bits(one: Piece, by_key: dict[Key, list[Weight]]) -> int:
    """Bits per element of a tensor by the config."""
    return next((weight.stored.bits for key in one.module.keys for weight in by_key.get(key, ())), PLAIN_BITS)


def _other(weight: Weight, held: Sequence[Piece], apart: int) -> str | None:
    """How a weight's own tensors differ. apart: elements by which its layer differs from the config."""
    if not held or any(len(one.module.keys) > 1 for one in held):
        return None
    numbers = {one.expert for one in held}
    if None in numbers:
        whole = weight.shape if weight.copies == 1 else (weight.copies, *weight.shape)
        return _other_shape(weight, whole, held, apart, 1) if len(held) == 1 else None
    if len(numbers) > weight.copies > 1 and apart > 0:
        return f"{len(numbers)} experts where the config has {weight.copies}"
    return _other_shape(weight, weight.shape, held, apart, len(held)) if len(held) == len(numbers) else None


def _other_shape(weight: Weight, shape: Shape, held: Sequence[Piece], apart: int, times: int) -> str | None:
    """How a tensor differs; None if the difference isn't half of its layer's, so that another tensor has the rest."""
    tensor, bits = held[0].tensor, weight.stored.bits
    count = elements(tensor, bits)
    more = 0 if count is None else (count - prod(shape)) * times
    if not more or more * apart < 0 or 2 * abs(apart) < abs(more) or len(tensor.shape) < MATRIX:
        return None
    packed = tensor.dtype in WORDS
    theirs = _unpacked(held[0], bits, shape) if packed else tensor.shape
    if packed and (_explained(held[0], shape) or (theirs is None and abs(more) * ROOM <= prod(shape) * times)):
        return None
    return f"{weight.name} of {_text(theirs) if theirs else f'{count:,} elements'} where the config has {_text(shape)}"


def _text(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def _ways(one: Piece, shape: Shape) -> list[tuple[Shape, Shape]]:
    """Possible packings of a matrix beside the config's shape, each as ((whole, packed), (whole, packed)).

    A qweight has inputs first: GPTQ packs along inputs, AWQ along outputs. Other packed matrices have outputs first and
    are packed along inputs.
    """
    packed = one.tensor.shape
    if len(packed) == len(shape) > MATRIX and packed[0] == shape[0]:
        packed, shape = packed[1:], shape[1:]
    if len(packed) != MATRIX or len(shape) != MATRIX:
        return []
    if one.module.inner.endswith("qweight"):
        return [(packed[::-1], shape), (packed, shape[::-1])]
    return [(packed, shape)]


def _explained(one: Piece, shape: Shape) -> bool:
    """Whether elements of some width make a packed matrix one of the config's shape."""
    word = WORDS[one.tensor.dtype]
    return any(
        theirs[0] == ours[0] and theirs[1] in (-(-ours[1] * bits // word), -(-ours[1] // (word // bits)))
        for theirs, ours in _ways(one, shape)
        for bits in WIDTHS
        if bits <= word
    )


def _unpacked(one: Piece, bits: int, shape: Shape) -> Shape | None:
    """Rows and columns of a packed matrix, by the dimension it shares with the config's shape; None if it shares none."""
    for theirs, ours in _ways(one, shape):
        found = theirs[0], theirs[1] * WORDS[one.tensor.dtype] // bits
        if found[0] == ours[0] or found[1] == ours[1]:
            return found if ours == shape[-MATRIX:] else found[::-1]
    return None
