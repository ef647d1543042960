"""Weights of a block, taken by purpose: component and last part of the name. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Weight
from kvplan.verify.parts import Held


class Names:
    """A block's weights, taken one by one. Those that are never taken are only held."""

    def __init__(self, block: Iterable[Weight]) -> None:
        self._left: list[Weight] = list(block)

    def take(
        self, component: str, *names: str, shape: tuple[int, ...] | None = None, rows: int | None = None
    ) -> Weight | None:
        """The first weight of that component with one of these last names (and shape, or rows), removed from the rest."""
        for weight in self._left:
            fits = shape in (None, weight.shape) and rows in (None, weight.shape[0])
            if weight.component == component and last(weight.name) in names and fits:
                self._left.remove(weight)
                return weight
        return None

    def has(self, component: str, name: str, shape: tuple[int, ...] | None = None) -> bool:
        """Whether there is such a weight left."""
        return any(
            weight.component == component and last(weight.name) == name and shape in (None, weight.shape)
            for weight in self._left
        )

    def drop(self, component: str, *names: str) -> bool:
        """Take all of these, including tensors listed in pieces; whether there were any."""
        before = len(self._left)
        self._left = [
            weight for weight in self._left if weight.component != component or last(weight.name) not in names
        ]
        return len(self._left) < before

    def take_norm(self, hidden: int) -> bool:
        """Take the next norm over the hidden vector, by its place in the layer or its size; whether there was one.

        It is built as wide as the hidden vector, whatever size is listed, so that a wrong list shows.
        """
        plain = [one for one in self._left if one.component == "norm" and not one.name.endswith(".bias")]
        found = next(filter(_of_the_stream, plain), None)
        if found is None:
            found = next((one for one in plain if one.shape == (hidden,) and one.copies == 1), None)
        if found is not None:
            self._left.remove(found)
        return found is not None

    def idle_norms(self) -> tuple[Weight, ...]:
        """Take all other norms over the hidden vector with their biases, which no module applies."""
        found = tuple(one for one in self._left if one.component == "norm" and _of_the_stream(one))
        self._left = [one for one in self._left if one not in found]
        return found

    def held(self, tp: int) -> tuple[Held, ...]:
        """The weights that weren't taken, as one of `tp` ranks holds them."""
        found = []
        for weight in self._left:
            shape, copies = weight.on_rank(Parallel(tp=tp))
            found.append(Held(weight, shape, copies))
        return tuple(found)


_BODIES = ("model.", "backbone.")


def _of_the_stream(weight: Weight) -> bool:
    """Whether a norm belongs to a layer itself, or to the body of the model, and not to one of their modules."""
    name = weight.name.removesuffix(".bias")
    for body in _BODIES:
        name = name.removeprefix(body)
    return "." not in name


def last(name: str) -> str:
    """The last part of a name: `q_proj` of `self_attn.q_proj`, `q_proj.bias` of its bias."""
    parts = name.split(".")
    return ".".join(parts[-2:]) if parts[-1] == "bias" else parts[-1]
