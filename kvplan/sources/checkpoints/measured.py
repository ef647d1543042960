"""An inventory with the bytes of the checkpoint's own headers, tensor by tensor.

The config gives shapes and how they are split; the headers give bytes. Tensors are matched to weights by name. What has
no counterpart is spread over its layer, so that every layer, and so every GPU, has exactly the bytes of the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from kvplan.arch.storage import HEADERS_SOURCE, Storage
from kvplan.arch.weights import HEAD, Block, Weight, Weights, matrix
from kvplan.sources.checkpoints.modules import Key, key_of
from kvplan.sources.checkpoints.pieces import Piece
from kvplan.sources.checkpoints.places import Places, pieces_bytes
from kvplan.sources.checkpoints.tensors import Tensor


def measured(found: Places) -> Weights:
    """The same weights with the bytes in the headers. `formula_bytes` keeps the config's figure.

    Prediction layers that no file has are dropped: a model saved without them keeps its config unchanged.
    """
    weights = found.weights
    beyond = _beyond([one for pieces in found.beyond.values() for one in pieces])
    source = replace(
        weights, files=found.headers.files, formula_bytes=weights.bytes, last=(*weights.last, *beyond),
        towers=_fitted(weights.towers, found.towers), draft=_fitted(weights.draft, found.drafts) if found.drafts else (),
    )  # fmt: skip
    if found.main_bytes == weights.bytes - _held(weights.towers):
        return source  # whatever the names of tensors, and wherever shared ones are stored
    first, last = _ends(found)
    same: dict[tuple[int, tuple[tuple[str, int], ...]], Block] = {}
    blocks = []
    for number, block in enumerate(weights.layers):
        inside = found.layers.get(number, ())
        kind = (id(block), tuple(sorted((one.module.inner, one.tensor.bytes) for one in inside)))
        if kind not in same:
            same[kind] = _fitted(block, inside)
        blocks.append(same[kind])
    return replace(source, first=first, layers=tuple(blocks), last=(*last, *beyond))


def _beyond(pieces: Sequence[Piece]) -> Block:
    """Layers that the config doesn't describe, as one weight of the last stage."""
    elements, size = sum(prod(one.tensor.shape) for one in pieces), pieces_bytes(pieces)
    if not elements:
        return ()
    bits, more = divmod(size * 8, elements)
    stored = Storage("as stored", bits, tensor_bits=more, source=HEADERS_SOURCE)
    return (Weight("layers beyond the config's", (elements,), "norm", stored),)


def accounts_for(weights: Weights, found: Places) -> bool:
    """Whether the weights have the files' bytes within 1 %. They don't if the names of tensors state no layer."""
    size = weights.bytes + _held(weights.draft) + pieces_bytes(found.aside)
    return abs(size - found.headers.bytes) * 100 <= found.headers.bytes


def lacks_head(found: Places) -> bool:
    """Whether the files have no head although the config says that it isn't the embedding."""
    weights = found.weights
    head = next((weight for weight in weights.last if weight.name == HEAD), None)
    return head is not None and not weights.tied and not any(_is_head(one, head) for one in _sides(found)[1])


def _is_head(one: Piece, head: Weight) -> bool:
    return one.module.keys[0][1] == HEAD or one.tensor.shape == head.shape


def _sides(found: Places) -> tuple[list[Piece], list[Piece]]:
    """Tensors before the layers and after them, told apart by name, else by shape."""
    before, after = ({key_of(weight.name) for weight in block} for block in (found.weights.first, found.weights.last))
    named = {one.module.keys[0] for one in found.ends}
    tables = (weight for weight in found.weights.first if len(weight.shape) > 1)
    nameless = [weight.shape for weight in tables if key_of(weight.name) not in named]
    mine: list[Piece] = []
    rest: list[Piece] = []
    for one in found.ends:
        key, shape = one.module.keys[0], one.tensor.shape
        by_shape = key not in before | after and shape in nameless
        if by_shape:
            nameless.remove(shape)
        (mine if by_shape or key in before else rest).append(one)
    return mine, rest


def _ends(found: Places) -> tuple[Block, Block]:
    """Embeddings before the layers; norm and head after them.

    A head that isn't in the files is a copy of the embedding if the model is tied, and otherwise as the config says.
    """
    weights = found.weights
    mine, rest = _sides(found)
    head = tuple(weight for weight in weights.last if weight.name == HEAD)
    stored = tuple(weight for weight in weights.last if weight.name != HEAD)
    first = _fitted(weights.first, mine)
    if weights.tied:
        return first, (*_fitted(stored, rest), *(_like_embedding(weight, first) for weight in head))
    if head and not any(_is_head(one, head[0]) for one in rest):
        return first, (*_fitted(stored, rest), *head)
    return first, _fitted(weights.last, rest)


def _like_embedding(weight: Weight, first: Block) -> Weight:
    same = next((other for other in first if other.shape == weight.shape), None)
    return weight if same is None else replace(weight, stored=same.stored)


def _held(block: Block) -> int:
    return sum(weight.bytes for weight in block)


def _fitted(block: Block, pieces: Sequence[Piece]) -> Block:
    """The block with exactly the bytes of its tensors; unchanged if it has them already, whatever the names."""
    if pieces_bytes(pieces) == _held(block):
        return block
    places: dict[Key, list[int]] = defaultdict(list)
    for index, weight in enumerate(block):
        places[key_of(weight.name)].append(index)
    sizes: dict[tuple[int, ...], int] = defaultdict(int)
    unnamed = []
    for one in pieces:
        group = tuple(dict.fromkeys(index for key in one.module.keys for index in places.get(key, ())))
        if group:
            sizes[group] += one.tensor.bytes
        else:
            unnamed.append(one.tensor)
    left = _of_same_shape(block, unnamed, sizes)
    result = list(block)
    taken = {index for group in sizes for index in group}
    free = tuple(index for index in range(len(block)) if index not in taken)
    if free and (left or taken):  # weights without a counterpart share what is left, and aren't there if nothing is
        sizes[free] += left
        left = 0
    for group, size in _disjoint(sizes).items():
        left += _store(result, group, size)
    if left:
        result.append(Weight("unlisted", (left,), "norm", Storage("as stored", 8)))
    return tuple(result)


def _of_same_shape(block: Block, tensors: Iterable[Tensor], sizes: dict[tuple[int, ...], int]) -> int:
    """Match tensors without a counterpart to weights of their shape or its transpose; bytes of the rest."""
    taken = {index for group in sizes for index in group}
    free = {
        index: sorted(weight.shape) for index, weight in enumerate(block) if index not in taken and weight.copies == 1
    }
    left = 0
    for tensor in tensors:
        index = next((index for index, shape in free.items() if shape == sorted(tensor.shape)), None)
        if index is None:
            left += tensor.bytes
        else:
            sizes[(index,)] += tensor.bytes
            del free[index]
    return left


def _disjoint(sizes: Mapping[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    """The groups, merged where they share a weight."""
    merged: list[tuple[set[int], int]] = []
    for group, size in sizes.items():
        members, total = set(group), size
        apart = []
        for others, other in merged:
            if members & others:
                members, total = members | others, total + other
            else:
                apart.append((others, other))
        merged = [*apart, (members, total)]
    return {tuple(sorted(members)): total for members, total in merged}


def _store(block: list[Weight], group: tuple[int, ...], size: int) -> int:
    """Give the weights of `group` formats that add up to `size` bytes: their own, if those explain the bytes.

    Returns the bytes that copies of the largest weight can't share equally.
    """
    elements = sum(block[index].parameters for index in group)
    bits = size * 8 // elements if elements else 0
    surplus = size - sum(block[index].bytes for index in group)
    if surplus < 0 or any(block[index].stored.bits != bits for index in group):
        counts = {index: _scales(block[index], bits) for index in group}
        each = (size * 8 - bits * elements) // (sum(counts.values()) or 1) if any(counts.values()) else 0
        for index in group:
            block[index] = replace(block[index], stored=_as_filed(block[index].stored, bits, each))
    largest = max(group, key=lambda index: block[index].parameters)
    others = sum(block[index].bytes for index in group if index != largest)
    block[largest], left = _with(block[largest], size - others)
    return left


def _scales(weight: Weight, bits: int) -> int:
    """Bits of all scales of a weight, of groups or rows, in the config's format for elements of `bits`."""
    known, (rows, columns) = weight.stored, matrix(weight.shape)
    if known.bits != bits:
        return 0
    if known.group:
        return weight.copies * -(-rows // known.group_rows) * -(-columns // known.group)
    return weight.copies * rows if known.row_bits else 0


def _as_filed(known: Storage, bits: int, scale: int) -> Storage:
    """A format with elements of `bits`, and scales of `scale` bits if the config's format for them has any."""
    if known.bits != bits:
        return Storage("as stored", bits, source=HEADERS_SOURCE)
    grouped, by_row = scale if known.group else 0, scale if known.row_bits and not known.group else 0
    return replace(known, group_bits=grouped, row_bits=by_row, column_bits=0, tensor_bits=0)


def _with(weight: Weight, size: int) -> tuple[Weight, int]:
    """A weight whose copies share `size` bytes. Bytes beyond its format are spread over the dimension that ranks split.

    Returns also the bytes that aren't enough for one more in each copy.
    """
    form, (rows, columns) = weight.stored, matrix(weight.shape)
    each, left = divmod(size, weight.copies)
    more = each * 8 - form.bits_of(rows, columns)
    by_columns = weight.split == 1 or len(weight.shape) == 1
    share, once = divmod(more, columns if by_columns else rows)
    stored = replace(
        form,
        row_bits=form.row_bits + (0 if by_columns else share),
        column_bits=form.column_bits + (share if by_columns else 0),
        tensor_bits=form.tensor_bits + once,
    )
    return replace(weight, stored=stored), left
