"""A checkpoint's quantization settings, as far as they decide whether an engine loads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scheme:
    """How some of the matrices are packed.

    bits: of an element. group: inputs that share a scale, -1 for whole rows. symmetric: whether there are no zero points;
    None where it isn't stated. order: what compressed-tensors calls the order of activations ("group", "weight"), "" for
    none.
    """

    bits: int
    group: int = -1
    symmetric: bool | None = None
    order: str = ""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantization block.

    method: as written, in small letters. unnamed: whether it isn't written, and follows from the block's keys. algorithm:
    ModelOpt's quant_algo. packing: auto-round's packing_format. activations: fp8's activation_scheme. schemes: of packed
    integers, different ones once. keys: that the block has.
    """

    method: str
    unnamed: bool = False
    algorithm: str = ""
    packing: str = ""
    activations: str = ""
    schemes: tuple[Scheme, ...] = ()
    keys: tuple[str, ...] = ()
