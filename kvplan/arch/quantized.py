"""A checkpoint's quantization settings, as far as they decide whether an engine loads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scheme:
    """How some of the matrices are packed.

    bits: of an element. group: inputs that share a scale, -1 for whole rows. symmetric: whether there are no zero
    points; None if that isn't stated. order: compressed-tensors' order of activations ("group", "weight"), "" for none.
    """

    bits: int
    group: int = -1
    symmetric: bool | None = None
    order: str = ""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantization block.

    method: as written, in lower case. unnamed: whether the method isn't written and was inferred from the block's keys.
    algorithm: ModelOpt's quant_algo. packing: auto-round's packing_format. schemes: distinct schemes of packed
    integers. keys: the keys of the block.
    """

    method: str
    unnamed: bool = False
    algorithm: str = ""
    packing: str = ""
    schemes: tuple[Scheme, ...] = ()
    keys: tuple[str, ...] = ()
