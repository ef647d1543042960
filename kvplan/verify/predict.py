"""Predictions for a run: bytes of caches and weights, batches, crossovers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvplan.arch.curve import LONGEST, Curve, StateGroup
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Reads, Weights, distinct
from kvplan.units import MIB
from kvplan.verify.parts import AttentionPart, Blueprint, ExpertsPart, LatentPart


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions for one tensor rank of `model`, which is already reduced to what is built.

    page: tokens of a page, None for contiguous caches. read: the weights that a step can read; None for all.
    """

    model: Model
    tp: int
    kv: KvFormat
    page: int | None = None
    read: Weights | None = None

    @property
    def parallel(self) -> Parallel:
        """The layout that this rank is part of."""
        return Parallel(tp=self.tp)

    def cache_bytes(self, tokens: int) -> int:
        """Bytes of one sequence of `tokens` on the rank, in whole pages."""
        if self.page is None:
            return sum(curve.bytes_at(tokens) for curve in self.model.rank_curves(self.parallel, self.kv))
        return sum(self.by_kind(tokens).values())

    def by_kind(self, tokens: int) -> dict[str, int]:
        """The same by growth law."""
        found: dict[str, int] = {}
        for counted in self.model.parts(self.kv, self.parallel.shard):
            size = _paged(counted.part.group, tokens, self.page) * counted.layers
            found[counted.part.kind] = found.get(counted.part.kind, 0) + size
        return found

    def reads(self, tokens: int) -> int:
        """Bytes of cache that one decode step reads for one sequence of `tokens`."""
        return self.reads_curve.bytes_at(tokens)

    @property
    def reads_curve(self) -> Curve:
        """The growth of `reads`."""
        return self.model.reads(self.kv, self.parallel.shard)

    def weights_bytes(self) -> int | None:
        """Bytes of weights on the rank; None without an inventory."""
        return None if self.model.weights is None else self.model.weights.bytes_on_rank(self.parallel)

    def weights_read(self, batch: int) -> int | None:
        """Bytes of weights that a step of `batch` sequences reads, with the experts expected if routing is uniform."""
        return None if self._reading is None else self._reading(batch).likely

    def weights_read_touching(self, batch: int, touched: Sequence[int]) -> int | None:
        """`weights_read` with the experts that each layer did use in place of those expected.

        touched: for each layer with experts, in order. None without an inventory, or if it lists other layers with
        experts.
        """
        expected, weights = self.weights_read(batch), self.read or self.model.weights
        if expected is None or weights is None:
            return None
        layers = [routed for layer in weights.layers if (routed := tuple(one for one in layer if one.picked))]
        if len(layers) != len(touched):
            return None
        found = float(expected)
        for layer, count in zip(layers, touched, strict=True):
            for one in layer:
                size = one.bytes_on_rank(self.parallel) / one.copies
                found += size * (count - distinct(one.copies, one.picked or 0, batch))
        return round(found)

    def weights_read_at_least(self, batch: int) -> int:
        """The same with the fewest possible experts; 0 without an inventory."""
        return 0 if self._reading is None else self._reading(batch).low

    @property
    def _reading(self) -> Callable[[int], Reads] | None:
        weights = self.read or self.model.weights
        return None if weights is None else weights.reader(self.parallel)

    def distinct_experts(self, batch: int) -> float | None:
        """Expected distinct experts of a layer if routing is uniform: E (1 - (1 - k/E)^batch); None without experts."""
        layers = () if self.model.weights is None else self.model.weights.layers
        routed = next((weight for layer in layers for weight in layer if weight.picked), None)
        if routed is None or routed.picked is None:
            return None
        return distinct(routed.copies, routed.picked, batch)

    def longest(self, pool: int, batch: int) -> int:
        """Most tokens of each of `batch` sequences that fit into `pool` bytes, in whole pages."""
        curve = Curve(tuple(term for one in self.model.rank_curves(self.parallel, self.kv) for term in one.terms))
        tokens = curve.tokens_that_fit(pool // batch)
        if self.page is None or tokens == LONGEST:
            return tokens
        tokens -= tokens % self.page
        while tokens > 0 and batch * self.cache_bytes(tokens) > pool:
            tokens -= self.page
        return tokens

    def max_batch(self, pool: int, tokens: int) -> int:
        """Sequences of `tokens` that fit into `pool` bytes."""
        return pool // self.cache_bytes(tokens)

    def crossover(self, batch: int) -> int | None:
        """Tokens from which the caches of `batch` sequences take longer to read than the weights; None if never."""
        weights = self.weights_read(batch)
        if weights is None:
            return None
        tokens = self.reads_curve.tokens_that_fit(weights // batch)
        return None if tokens == LONGEST else tokens + 1


def _paged(group: StateGroup, tokens: int, page: int | None) -> int:
    """Bytes of one growth law with its entries in whole pages."""
    if page is None:
        return group.bytes_at(tokens)
    entries = (tokens if group.cap is None else min(tokens, group.cap)) // group.stride
    return group.fixed + group.per_state * (-(-entries // page) * page)


def workspace_bytes(plan: Blueprint, batch: int) -> int:
    """Room for all temporary tensors of a step: a safe upper bound, not a prediction.

    Activations of a layer and logits in 32 bit, partial results of split attention, and the library's own workspaces.
    """
    widest = max((_widest(part) for layer in plan.layers for part in layer.mixers), default=0)
    for part in plan.feed_forwards:
        each = part.picked * (4 * part.width + 3 * plan.hidden) if isinstance(part, ExpertsPart) else 4 * part.width
        widest = max(widest, each)
    return 4 * batch * (2 * plan.head + 8 * plan.hidden + 2 * widest) + 192 * MIB


def _widest(part: object) -> int:
    """Elements that a mixer makes from one token, with the partial results of split attention."""
    if isinstance(part, AttentionPart):
        return part.heads * (3 * part.k_dim + 64 * part.v_dim)
    if isinstance(part, LatentPart):
        return part.heads * (3 * (part.rank + part.rope_dim) + 64 * part.rank)
    return 16_384
