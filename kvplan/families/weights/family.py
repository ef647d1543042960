"""What a family says about its tensors: one template for each kind of layer, and what its symbols mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvplan.families.weights import parts
from kvplan.families.weights.symbols import ConfigSymbols

Given = Mapping[str, int | bool | str]


@dataclass(frozen=True, slots=True)
class Family:
    """Templates of one family.

    attention, latent, compressed, cross: by what a layer caches. recurrent: by the recurrence's law, "" for any.
    dense, moe: of the feed-forward. norms: in every layer. first, last: before and after the layers.
    single: whether a layer is attention or recurrence or feed-forward, not one after the other.
    given: what its symbols mean whatever the config says. fallback: where the config and its class say nothing.
    locals: symbols of a layer (its number, and how many layers there are) that no field states as such.
    unsure: why the counts may be off.
    """

    attention: str = parts.attention()
    latent: str = parts.latent()
    compressed: str = ""
    cross: str = ""
    recurrent: Mapping[str, str] = field(default_factory=dict)
    dense: str = parts.gated()
    moe: str = f"{parts.experts()} {parts.shared()}"
    norms: str = parts.NORM2
    first: str = parts.EMBEDDING
    last: str = parts.HEAD
    single: bool = False
    given: Given = field(default_factory=dict)
    fallback: Given = field(default_factory=dict)
    locals: Callable[[ConfigSymbols, int, int], Given] | None = None
    unsure: str | None = None
