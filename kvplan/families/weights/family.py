"""What a family says about its tensors: one template for each kind of layer, and what its symbols mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvplan.families.weights import parts
from kvplan.families.weights.symbols import ConfigSymbols
from kvplan.families.weights.towers import Tower

Given = Mapping[str, int | bool | str]


@dataclass(frozen=True, slots=True)
class Family:
    """Templates of one family.

    attention, latent, compressed, cross: by what a layer caches. recurrent: by the recurrence's law, "" for any.
    dense, moe: of the feed-forward. norms: in every layer. first, last: before and after the layers.
    single: whether a layer is attention or recurrence or feed-forward, not one after the other.
    tied: whether the head is the embedding, where the class's word for it doesn't hold. usually_tied: whether it is when
    neither the config nor the class says.
    given: what its symbols mean whatever the config says. fallback: where the config and its class say nothing.
    ffn: which layers have an MLP ("dense"), experts ("moe") or neither (""), where pattern.py doesn't know.
    more: symbols that take more than an expression. towers: encoders of text, described by the same fields.
    borrowed: of a draft, what it takes from its target unless its checkpoint has its own.
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
    tied: bool | None = None
    usually_tied: bool = False
    given: Given = field(default_factory=dict)
    fallback: Given = field(default_factory=dict)
    ffn: Callable[[ConfigSymbols, int], tuple[str, ...]] | None = None
    more: Callable[[ConfigSymbols], Given] | None = None
    locals: Callable[[ConfigSymbols, int, int], Given] | None = None
    towers: tuple[Tower, ...] = ()
    borrowed: str = ""
    unsure: str | None = None
