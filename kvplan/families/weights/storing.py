"""From an inventory in one dtype to the formats that the checkpoint keeps it in, layer by layer."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.storage import Storage
from kvplan.arch.weights import Block, Weight, Weights
from kvplan.families.quantization.names import ALIASES, GATED, bare
from kvplan.families.quantization.rules import Quantization
from kvplan.families.quantization.spelled import ORDINARY, Spelling

DRAFTS = "mtp.layers.0."
"""How checkpoints call what is in their first prediction layer, where it isn't numbered as a layer behind the last."""


def store(weights: Weights, found: Quantization, spelled: Spelling = ORDINARY) -> Weights:
    """The same weights in the checkpoint's formats. spelled: how this family writes the names of modules."""
    missing = weights.missing
    if found.unknown is not None:
        missing = (*missing, f"format of the weights ({found.unknown})")
    if found.plain:
        return replace(weights, method=found.method, missing=missing)
    done: dict[tuple[int, tuple[Storage, ...]], Block] = {}
    alike: dict[tuple[int, object], Block] = {}
    layers = []
    for index, block in enumerate(weights.layers):
        kind = (id(block), found.of_layer(index))
        if kind not in alike:
            gated = is_gated(block)
            formats = tuple(
                found.stored(weight, spellings(weight, spelled, gated=gated), index, spelled.stem) for weight in block
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
    return tuple(names)
