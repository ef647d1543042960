"""An inventory whose bytes are those of the checkpoint's own headers, tensor by tensor.

The config gives shapes, and who splits what; the headers give bytes. Tensors are laid beside weights by name; what has no
counterpart by name is spread over its layer, so that every layer, and so every GPU, has exactly the files' bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from kvplan.arch.storage import HEADERS_SOURCE, Storage
from kvplan.arch.weights import HEAD, ONE_GPU, Block, Weight, Weights, matrix
from kvplan.sources.modules import Key, key_of, keys_of, module_of
from kvplan.sources.places import is_aside, places, tensor_bytes
from kvplan.sources.tensors import Headers, Tensor, layer_of


def measured(weights: Weights, headers: Headers) -> Weights:
    """The same weights with the bytes that `headers` state; `formula_bytes` keeps what the config's formula gave."""
    found = places(weights, headers)
    source = replace(
        weights, files=headers.files, formula_bytes=weights.bytes, last=(*weights.last, *_beyond(found.beyond)),
        towers=_fitted(weights.towers, found.towers), draft=_fitted(weights.draft, found.drafts),
    )  # fmt: skip
    if found.main_bytes == weights.bytes - _held(weights.towers):
        return source  # whatever the tensors are called, and wherever layers that share some have them
    first, last = _ends(weights, found.ends)
    same: dict[tuple[int, tuple[tuple[str, int], ...]], Block] = {}
    blocks = []
    for number, block in enumerate(weights.layers):
        inside = found.layers.get(number, ())
        kind = (id(block), tuple(sorted((module_of(tensor.name)[1], tensor.bytes) for tensor in inside)))
        if kind not in same:
            same[kind] = _fitted(block, inside)
        blocks.append(same[kind])
    return replace(source, first=first, layers=tuple(blocks), last=(*last, *_beyond(found.beyond)))


def _beyond(tensors: Sequence[Tensor]) -> Block:
    """Layers that the config doesn't describe, as weights of the last stage."""
    return (_unlisted("layers beyond the config's", tensors),) if tensors else ()


def _unlisted(name: str, tensors: Iterable[Tensor]) -> Weight:
    """Tensors without a counterpart as one weight of their elements and bytes."""
    listed = tuple(tensors)
    elements, size = sum(prod(tensor.shape) for tensor in listed), tensor_bytes(listed)
    bits, more = divmod(size * 8, elements) if elements else (8, 0)
    return Weight(name, (elements,), "norm", Storage("as stored", bits, tensor_bits=more, source=HEADERS_SOURCE))


def accounts_for(weights: Weights, headers: Headers) -> bool:
    """Whether the weights have the bytes of the files, up to 1 %: not so where tensors have names that say no layer."""
    found = (
        weights.bytes
        + _held(weights.draft)
        + tensor_bytes(tensor for tensor in headers.tensors if is_aside(tensor.name, tensor.shape, weights))
    )
    return abs(found - headers.bytes) * 100 <= headers.bytes


def lacks_head(weights: Weights, headers: Headers) -> bool:
    """Whether the files have no head though the config says that it isn't the embedding."""
    head = next((weight for weight in weights.last if weight.name == HEAD), None)
    before = {key_of(weight.name) for weight in weights.first}
    late = (
        tensor for tensor in headers.tensors if layer_of(tensor.name) is None and keys_of(tensor.name)[0] not in before
    )
    return head is not None and not weights.tied and not any(_is_head(tensor, head) for tensor in late)


def _is_head(tensor: Tensor, head: Weight) -> bool:
    return keys_of(tensor.name)[0][1] == HEAD or tensor.shape == head.shape


def _ends(weights: Weights, tensors: Sequence[Tensor]) -> tuple[Block, Block]:
    """Embeddings before the layers, norm and head after them, told apart by names, else by shapes.

    A head that isn't in the files is a copy of the embedding where the model is tied, and else what the config says.
    """
    head = tuple(weight for weight in weights.last if weight.name == HEAD)
    stored = tuple(weight for weight in weights.last if weight.name != HEAD)
    before, after = ({key_of(weight.name) for weight in block} for block in (weights.first, weights.last))
    named = {keys_of(tensor.name)[0] for tensor in tensors}
    nameless = [weight.shape for weight in weights.first if key_of(weight.name) not in named]
    mine: list[Tensor] = []
    rest: list[Tensor] = []
    for tensor in tensors:
        key = keys_of(tensor.name)[0]
        by_shape = key not in before | after and tensor.shape in nameless
        if by_shape:
            nameless.remove(tensor.shape)
        (mine if by_shape or key in before else rest).append(tensor)
    first = _fitted(weights.first, mine)
    if weights.tied:
        return first, (*_fitted(stored, rest), *(_like_embedding(weight, first) for weight in head))
    if head and not any(_is_head(tensor, head[0]) for tensor in rest):
        return first, (*_fitted(stored, rest), *head)
    return first, _fitted(weights.last, rest)


def _like_embedding(weight: Weight, first: Block) -> Weight:
    same = next((other for other in first if other.shape == weight.shape), None)
    return weight if same is None else replace(weight, stored=same.stored)


def _held(block: Block) -> int:
    return sum(weight.bytes_on_rank(ONE_GPU) for weight in block)


def _fitted(block: Block, tensors: Iterable[Tensor]) -> Block:
    """The block with exactly the bytes of its tensors; as it is where it has those, whatever the tensors are called."""
    tensors = tuple(tensors)
    if tensor_bytes(tensors) == _held(block):
        return block
    places: dict[Key, list[int]] = defaultdict(list)
    for index, weight in enumerate(block):
        places[key_of(weight.name)].append(index)
    sizes: dict[tuple[int, ...], int] = defaultdict(int)
    unnamed = []
    for tensor in tensors:
        found = tuple(dict.fromkeys(index for key in keys_of(tensor.name) for index in places.get(key, ())))
        if found:
            sizes[found] += tensor.bytes
        else:
            unnamed.append(tensor)
    left = _of_same_shape(block, unnamed, sizes)
    result = list(block)
    taken = {index for group in sizes for index in group}
    free = tuple(index for index in range(len(block)) if index not in taken)
    if free and (left or taken):  # what has no counterpart by name shares what is left; when nothing is, it isn't there
        sizes[free] += left
        left = 0
    for group, size in _disjoint(sizes).items():
        _store(result, group, size)
    if left:
        result.append(Weight("unlisted", (left,), "norm", Storage("as stored", 8)))
    return tuple(result)


def _of_same_shape(block: Block, tensors: Iterable[Tensor], sizes: dict[tuple[int, ...], int]) -> int:
    """Give tensors without a counterpart by name to weights of their shape, or of its transpose; bytes of the others."""
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
    """Groups that share a weight, merged."""
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


def _store(block: list[Weight], group: tuple[int, ...], size: int) -> None:
    """Give the weights of `group` formats that add up to `size` bytes: their own, where those explain the bytes."""
    elements = sum(block[index].parameters for index in group)
    bits = size * 8 // elements if elements else 0
    largest = max(group, key=lambda index: block[index].parameters)
    surplus = size - sum(block[index].bytes_on_rank(ONE_GPU) for index in group)
    if surplus >= 0 and all(block[index].stored.bits == bits for index in group):
        if surplus:
            block[largest] = replace(block[largest], stored=_with(block[largest], block[largest].stored, surplus * 8))
        return
    scales = {index: _scales(block[index], bits) for index in group}
    each, more = divmod(size * 8 - bits * elements, sum(scales.values()) or 1)
    if not any(scales.values()):
        each, more = 0, each
    for index in group:
        weight = block[index]
        form = _as_filed(weight.stored, bits, each)
        block[index] = replace(weight, stored=_with(weight, form, more) if index == largest else form)


def _scales(weight: Weight, bits: int) -> int:
    """Scales of all copies of a weight, of groups or of rows, in the format that the config states for elements of `bits`."""
    known, (rows, columns) = weight.stored, matrix(weight.shape)
    if known.bits != bits:
        return 0
    if known.group:
        return weight.copies * -(-rows // known.group_rows) * -(-columns // known.group)
    return weight.copies * rows if known.row_bits else 0


def _as_filed(known: Storage, bits: int, scale: int) -> Storage:
    """Elements of `bits`, with scales of `scale` bits where the config states a format of such elements that has any."""
    if known.bits != bits:
        return Storage("as stored", bits, source=HEADERS_SOURCE)
    grouped, by_row = scale if known.group else 0, scale if known.row_bits and not known.group else 0
    return replace(known, group_bits=grouped, row_bits=by_row, column_bits=0, tensor_bits=0)


def _with(weight: Weight, form: Storage, more: int) -> Storage:
    """The same format with `more` bits in all copies together, shared out along the dimension that ranks split."""
    per_copy, odd = divmod(more, weight.copies)
    by_columns = weight.split == 1 or len(weight.shape) == 1
    each, once = divmod(per_copy, matrix(weight.shape)[by_columns])
    return replace(
        form,
        row_bits=form.row_bits + (0 if by_columns else each),
        column_bits=form.column_bits + (each if by_columns else 0),
        tensor_bits=form.tensor_bits + once + -(-odd // weight.copies),
    )
