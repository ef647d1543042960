"""A small language for the tensors of a layer, so that families are tables and not code.

    attention: self_attn.q_proj[~A*d,H]+attention_bias self_attn.o_proj[H,~A*d]  norm: self_attn.q_norm[d]?qk_norm

A word ending in a colon names the component of what follows. Then, one tensor a word:

    name[rows,columns]   the matrix of a linear layer, outputs first; [n] a vector
    name(...)            a parameter that is no linear layer, whatever its dimensions
    ~                    before the dimension that tensor parallelism deals out; of a product, the first factor counts
                         the units (heads) that can't be cut
    E@name[...]          E copies; of experts, a token uses the symbol `picked`
    +  or  +flag         with a bias: always, or when the flag is on
    ?flag  ?!flag        only when the flag is on (or off); a number is a flag that is on when it isn't zero

Dimensions are sums of products of numbers and symbols: 2*n_groups*state_size+A*d. `#name` is the length of a list,
`text.H` the symbol of another part of the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from kvplan.arch.storage import Storage
from kvplan.arch.weights import Component, Weight
from kvplan.errors import BadField


class Symbols(Protocol):
    """What a template asks of a config."""

    def number(self, name: str) -> int:
        """Value of a dimension. Raises: MissingField."""

    def on(self, name: str) -> bool:
        """Whether a flag is on."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A sum of products. terms: (sign, factors), a factor being (whether it divides, a number or a symbol's name)."""

    terms: tuple[tuple[int, tuple[tuple[bool, int | str], ...]], ...]
    units: str | None = None

    def value(self, symbols: Symbols) -> int:
        """Its value for one config.

        Raises: MissingField; BadField where it divides by nothing, or comes out below zero.
        """
        total = 0
        for sign, factors in self.terms:
            product = 1
            for divides, factor in factors:
                number = factor if isinstance(factor, int) else symbols.number(factor)
                if divides and not number:
                    raise BadField(str(factor), number, "a number that something can be shared by")
                product = product // number if divides else product * number
            total += sign * product
        if total < 0:
            names = ", ".join(dict.fromkeys(str(factor) for _, factors in self.terms for _, factor in factors))
            raise BadField(
                f"a dimension made of {names}", total, "a whole number of at least 0", hint="correct those fields"
            )
        return total


@dataclass(frozen=True, slots=True)
class Item:
    """One word of a template."""

    component: Component
    name: str
    dimensions: tuple[Dimension, ...]
    split: int | None
    linear: bool
    bias: str | None
    conditions: tuple[tuple[str, bool], ...]
    copies: Dimension | None


_WORD = re.compile(r"(?:([^@\s]+)@)?([\w.\-]+)(\[[^\]]*\]|\([^)]*\))(\+[\w.]*)?((?:\?!?[\w.#]+)*)")


@cache
def parse(text: str) -> tuple[Item, ...]:
    """Words of a template.

    Raises: ValueError for what isn't one.
    """
    items: list[Item] = []
    component: Component = "attention"
    for word in text.split():
        if word.endswith(":"):
            component = word[:-1]  # type: ignore[assignment]
            continue
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"not a template word: {word}")
        copies, name, dims, bias, conditions = match.groups()
        parts = dims[1:-1].split(",")
        split = next((index for index, part in enumerate(parts) if part.startswith("~")), None)
        items.append(
            Item(
                component, name, tuple(dimension(part) for part in parts), split, dims[0] == "[" and len(parts) == 2,
                None if bias is None else bias[1:],
                tuple((flag.lstrip("!"), not flag.startswith("!")) for flag in conditions.split("?")[1:]),
                None if copies is None else dimension(copies),
            )
        )  # fmt: skip
    return tuple(items)


@cache
def dimension(text: str) -> Dimension:
    """An expression such as `2*n_groups*state_size+A*d`, worked out from left to right."""
    body = text.lstrip("~")
    terms = []
    for sign, term in re.findall(r"([+-]?)([^+-]+)", body):
        factors = re.findall(r"([*/]?)([^*/]+)", term)
        terms.append(
            (
                -1 if sign == "-" else 1,
                tuple((op == "/", int(part) if part.isdigit() else part) for op, part in factors),
            )
        )
    first = body.split("*")[0]
    whole = text.startswith("~") and "*" in text and "+" not in text and "-" not in text and not first.isdigit()
    return Dimension(tuple(terms), first if whole else None)


def build(text: str, symbols: Symbols, stored: Storage) -> tuple[Weight, ...]:
    """The tensors of a template for one config.

    Raises: MissingField if a dimension isn't there.
    """
    weights: list[Weight] = []
    for item in parse(text):
        if all(symbols.on(flag) is wanted for flag, wanted in item.conditions):
            weights += _weights(item, symbols, stored)
    return tuple(weights)


def _weights(item: Item, symbols: Symbols, stored: Storage) -> list[Weight]:
    shape = tuple(dimension.value(symbols) for dimension in item.dimensions)
    copies, picked, units = 1, None, 0
    if item.copies is not None:
        copies = item.copies.value(symbols)
        picked = symbols.number("picked") if item.component == "experts" else None
    if item.split is not None and (named := item.dimensions[item.split].units) is not None:
        units = symbols.number(named)
    found = [Weight(item.name, shape, item.component, stored, item.split, units, copies, picked, item.linear)]
    if item.bias is not None and (not item.bias or symbols.on(item.bias)):
        split, units = (0, units) if item.split == 0 else (None, 0)
        found.append(Weight(f"{item.name}.bias", shape[:1], item.component, stored, split, units, copies, picked))
    return found
