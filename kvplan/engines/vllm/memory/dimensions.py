"""The sizes that a profiled step is counted from, each with the ends between which it lies where nobody states it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvplan.arch.layers import Compressed
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Weight, Weights
from kvplan.engines.base import Range
from kvplan.engines.unstated import HIDDEN, VOCABULARIES, WIDTHS, layer_weights, shapeless

MATRIX, INPUTS = 2, 1
"""Dimensions of a matrix, and the one of them that its inputs are."""
GATED, PLAIN = 3, 2
"""Matrices of hidden size x width in a feed-forward layer with a gate, and without."""
ENCODERS = ("vision", "audio")
"""How the names of missing encoders begin."""
STREAMS = Range(1, 4, 4)
"""Copies of hidden states beside compressed entries: DeepSeek-V4 keeps four."""


@dataclass(frozen=True, slots=True)
class Experts:
    """What a token meets in a mixture on one rank: experts picked, their width, their inputs, bits of their matrices.

    outputs: of the matrices that widen, together: twice the width where there is a gate. format: of those, by its name. count: of all
    ranks' experts.
    """

    picked: int
    width: int
    inputs: int
    bits: int
    outputs: int
    format: str = ""
    count: int = 0


NO_EXPERTS = Experts(0, 0, 0, 0, 0)
LARGEST_EXPERTS = Experts(22, 5120, 2048, 16, 2 * 5120)
"""Of the published mixture whose tokens take the most room: Nemotron-3-Ultra."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Of one rank. vocabulary: words. hidden, width: of hidden states and of dense layers. streams: copies of the former.

    towers: whether images or sound are embedded.
    """

    vocabulary: int
    hidden: int
    width: int
    experts: Experts
    streams: int
    towers: bool


class Ends(NamedTuple):
    """The least that a model may have, what is likely, and the most; all the same where everything is stated."""

    low: Dimensions
    likely: Dimensions
    high: Dimensions


def dimensions(model: Model, parallel: Parallel) -> Ends:
    """Sizes of a model on the fullest rank."""
    known = layer_weights(model)
    vocabulary, hidden = _stated(model.vocab_size, VOCABULARIES), _stated(model.hidden_size, HIDDEN)
    width, streams = _width(model, known, hidden, parallel), _streams(model, known)
    experts = _experts(model, known, hidden, parallel)
    towers = (False, False, True) if model.weights is None else (_embeds(model.weights),) * 3
    ends = zip(_ends(vocabulary), _ends(hidden), _ends(width), experts, _ends(streams), towers, strict=True)
    return Ends(*(Dimensions(*end) for end in ends))


def _embeds(weights: Weights) -> bool:
    """Whether it has an encoder of images or sound, counted or missing."""
    return bool(weights.towers) or any(part.startswith(ENCODERS) for part in weights.missing)


def _stated(value: int | None, otherwise: Range) -> Range:
    return otherwise if value is None else Range.exactly(value)


def _ends(size: Range) -> tuple[int, int, int]:
    return size.low, size.likely, size.high


def _widening(weights: Sequence[Weight]) -> list[Weight]:
    """The matrices that widen: inputs of one that narrows are what is cut."""
    return [each for each in weights if each.linear and len(each.shape) == MATRIX and each.split != INPUTS]


def _widest(weights: Sequence[Weight], parallel: Parallel) -> Weight | None:
    """The one with the most outputs on a rank."""
    return max(_widening(weights), key=lambda each: each.on_rank(parallel)[0][0], default=None)


def _width(model: Model, known: Sequence[Weight], hidden: Range, parallel: Parallel) -> Range:
    """Of dense layers: of their matrices, as stated, or what their number of parameters leaves room for."""
    dense = [weight for weight in known if weight.component == "mlp"]
    if model.weights is not None and not any(map(shapeless, dense)):
        found = _widest(dense, parallel)
        return Range.exactly(0 if found is None else found.on_rank(parallel)[0][0])
    if model.intermediate_size is not None:
        return Range.exactly(-(-model.intermediate_size // parallel.tp))
    elements = max((weight.parameters for weight in dense), default=None)
    room = WIDTHS if elements is None else _of_elements(elements, hidden)
    return Range(0, -(-min(room.likely, WIDTHS.likely) // parallel.tp), -(-min(room.high, WIDTHS.high) // parallel.tp))


def _of_elements(elements: int, hidden: Range) -> Range:
    """Width of layers of so many parameters: with a gate, and at most without one."""
    return Range(
        elements // (GATED * hidden.high), elements // (GATED * hidden.likely), elements // (PLAIN * hidden.low)
    )


def _experts(
    model: Model, known: Sequence[Weight], hidden: Range, parallel: Parallel
) -> tuple[Experts, Experts, Experts]:
    if model.weights is None:
        return NO_EXPERTS, NO_EXPERTS, LARGEST_EXPERTS
    routed = [weight for weight in known if weight.component == "experts"]
    if not routed:
        return (NO_EXPERTS,) * 3
    picked = max(weight.picked or weight.copies for weight in routed)
    found = _widest(routed, parallel)
    if found is not None:
        width = found.on_rank(parallel)[0][0]
        alike = {each.name for each in _widening(routed) if each.routed == found.routed and each.shape == found.shape}
        kept = found.stored
        outputs = len(alike) * width
        return (Experts(picked, width, found.shape[INPUTS], kept.bits, outputs, kept.name, found.copies),) * 3
    bits = max(weight.stored.bits for weight in routed)
    widths = _of_elements(max(weight.on_rank(parallel)[0][0] for weight in routed), hidden)
    low, likely, high = (
        Experts(picked, width, inputs, bits, 2 * width)
        for width, inputs in zip(_ends(widths), _ends(hidden), strict=True)
    )
    return low, likely, high


def _streams(model: Model, known: Sequence[Weight]) -> Range:
    """Copies of hidden states that hyper-connections keep."""
    if not model.has(Compressed):
        return Range.exactly(1)
    mixers = [weight.shape[1] for weight in known if weight.name.endswith("attn_hc.fn")]
    if mixers and model.hidden_size is not None:
        return Range.exactly(mixers[0] // model.hidden_size)
    return STREAMS if model.weights is None or any(map(shapeless, known)) else Range.exactly(1)
