"""From an inventory in one dtype to the formats that the checkpoint keeps it in, layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from kvplan.arch.storage import Storage
from kvplan.arch.weights import UNLISTED, Block, Weight, Weights, matrix
from kvplan.families.quantization.names import ALIASES, GATED, bare
from kvplan.families.quantization.rules import Quantization
from kvplan.families.quantization.spelled import ORDINARY, Spelling
from kvplan.families.quantization.unmatched import Modules, unmatched

DRAFTS = "mtp.layers.0."
"""How checkpoints call what is in their first prediction layer, where it isn't numbered as a layer behind the last."""


def store(weights: Weights, found: Quantization, spelled: Spelling = ORDINARY) -> Weights:
    """The same weights in the checkpoint's formats. spelled: how this family writes the names of modules."""
    missing = weights.missing
    if found.unknown is not None:
        missing = (*missing, f"format of the weights ({found.unknown})")
    if found.plain:
        return replace(weights, method=found.method, missing=missing)
    doubtful = unmatched(found, lambda: _named(weights, spelled), spelled.stem)
    if doubtful:
        missing = (*missing, _unlisted(doubtful))
    done: dict[tuple[int, tuple[Storage, ...]], Block] = {}
    alike: dict[tuple[int, object], Block] = {}
    layers = []
    for index, block in enumerate(weights.layers):
        kind = (id(block), found.of_layer(index))
        if kind not in alike:
            gated = is_gated(block)
            formats = tuple(
                _format(weight, found, spellings(weight, spelled, gated=gated), index, spelled.stem) for weight in block
            )
            key = (id(block), formats)
            if key not in done:
                done[key] = _stored(block, formats)
            alike[kind] = done[key]
        layers.append(alike[kind])

    def end(block: Block) -> Block:
        return _stored(block, tuple(found.stored(weight, spellings(weight, spelled)) for weight in block))

    draft = _stored(weights.draft, tuple(_drafted(weight, found, len(layers), spelled) for weight in weights.draft))
    return replace(
        weights, first=end(weights.first), layers=tuple(layers), last=end(weights.last), draft=draft,
        method=found.method, missing=missing,
    )  # fmt: skip


def _unlisted(entries: tuple[str, ...]) -> str:
    more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    return f"{UNLISTED} ({entries[0]}{more}, which may have more bits)"


def _named(weights: Weights, spelled: Spelling) -> Modules:
    """Every module's names, layer by layer, and those of the prediction layer behind the last."""
    by_block: dict[int, tuple[tuple[str, ...], ...]] = {}
    for block, _ in weights.distinct:
        by_block[id(block)] = _names(block, spelled)
    found: dict[int | None, tuple[tuple[str, ...], ...]] = {
        layer: by_block[id(block)] for layer, block in enumerate(weights.layers)
    }
    found[None] = _names((*weights.first, *weights.last), spelled)
    found[len(weights.layers)] = _names(weights.draft or weights.layers[-1], spelled)
    return found


def _names(block: Block, spelled: Spelling) -> tuple[tuple[str, ...], ...]:
    return tuple(spellings(weight, spelled) for weight in block)


def _format(weight: Weight, found: Quantization, names: tuple[str, ...], layer: int, stem: str) -> Storage:
    """Format of a tensor of a layer; of experts that a list tells apart, one for them all that has the bytes of each."""
    if not weight.routed or not found.tells_experts_apart(layer):
        return found.stored(weight, names, layer, stem)
    each = Counter(
        found.stored(weight, tuple(name.replace(FIRST, f"experts.{number}.") for name in names), layer, stem)
        for number in range(weight.copies)
    )
    return next(iter(each)) if len(each) == 1 else _blended(weight, each)


FIRST = "experts.0."
"""How an inventory calls all experts of a layer."""


def _blended(weight: Weight, copies: Mapping[Storage, int]) -> Storage:
    """The smallest of several formats with what copies in the others have more, along the dimension that ranks split."""
    rows, columns = matrix(weight.shape)
    least = min(copies, key=lambda form: form.bytes(rows, columns))
    more = 8 * sum(number * (form.bytes(rows, columns) - least.bytes(rows, columns)) for form, number in copies.items())
    lines = columns if weight.split == 1 else rows
    each, odd = divmod(more, weight.copies * lines)
    once = least.tensor_bits + -(-odd // weight.copies)
    if weight.split == 1:
        return replace(least, column_bits=least.column_bits + each, tensor_bits=once)
    return replace(least, row_bits=least.row_bits + each, tensor_bits=once)


def _drafted(weight: Weight, found: Quantization, layer: int, spelled: Spelling) -> Storage:
    """Format of a tensor of the prediction layers: in dtype if either of their names is excepted.

    layer: how many layers the model has, which is the first prediction layer's number.
    """
    names = spellings(weight, spelled)
    numbered = found.stored(weight, names, layer, spelled.stem)
    apart = found.stored(weight, tuple(DRAFTS + name for name in names))
    return max(numbered, apart, key=lambda storage: storage.bits)


def _stored(block: Block, formats: tuple[Storage, ...]) -> Block:
    return tuple(
        weight if weight.stored == form else replace(weight, stored=form)
        for weight, form in zip(block, formats, strict=True)
    )


def is_gated(block: Block) -> bool:
    """Whether a layer has gates, which engines join with what they gate."""
    return any(weight.name.endswith("gate_proj") for weight in block)


def spellings(weight: Weight, spelled: Spelling, *, gated: bool = True) -> tuple[str, ...]:
    """Names that a module goes by within its layer: its own, its aliases, and this family's own spelling."""
    own = bare(weight.name)
    names = [own]
    parent, dot, last = own.rpartition(".")
    names += [f"{parent}{dot}{other}" for other in ALIASES.get(last, ()) if gated or other != GATED]
    for ordinary, other in spelled.pairs:
        names += [other + name.removeprefix(ordinary) for name in tuple(names) if name.startswith(ordinary)]
    names += [name.replace(FIRST, STACKED) for name in tuple(names) if FIRST in name]
    return tuple(dict.fromkeys(names))


STACKED = "experts."
"""What checkpoints that keep all experts in one tensor write before its name."""
