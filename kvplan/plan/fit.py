"""Whether a model fits: how many sequences at once, and how long a single one may be.

The formula's capacity and the engine's stand side by side, from the same cache memory. The engine decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kvplan.arch.curve import LONGEST, Curve
from kvplan.arch.formats import KvFormat
from kvplan.arch.weights import UNLISTED
from kvplan.engines.base import Binding, Budget, Capacity, Refusal
from kvplan.engines.ideal import formula
from kvplan.errors import UsageError
from kvplan.plan.longest import beyond_memory, longest_alone, spent
from kvplan.plan.request import End, Request
from kvplan.plan.roofline import Decode, decode
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.engines.protocol import Started

SMALL_PARTS = ("head", "vision", "audio", "projector", UNLISTED)
"""Parts that may be missing from a model's count, because the safe end of the weights allows for them."""


@dataclass(frozen=True, slots=True)
class Fit:
    """It fits. binding: what limits the number of sequences."""

    binding: Binding
    max_sequences: int


@dataclass(frozen=True, slots=True)
class NoFit:
    """It doesn't fit. binding: what is missing. short_by_bytes: how much of it, on the fullest GPU. reason: in words."""

    binding: Binding
    short_by_bytes: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """The answer to a Request.

    started: the engine with its cache laid out, for further questions. kv_bytes: cache memory of the fullest GPU that
    the plan counts on; negative if the weights are too large. ideal: capacity by the formula. own: the engine's answer.
    decode: the time of a step, None if nothing runs or the weights are unknown.
    """

    request: Request
    started: Started
    budget: Budget
    kv_bytes: int
    outcome: Fit | NoFit
    ideal: Capacity
    own: Capacity | Refusal
    decode: Decode | None

    @property
    def kv(self) -> KvFormat:
        """The cache format in use."""
        return self.started.kv

    @property
    def reserved(self) -> Capacity | None:
        """What the engine reserves; None for the formula, and if the engine would refuse to start."""
        return self.own if isinstance(self.own, Capacity) and self.request.engine.allocates else None

    @property
    def max_sequences(self) -> int:
        """Sequences admitted at once."""
        return self.own.max_sequences if isinstance(self.own, Capacity) and not self._overfilled else 0

    @cached_property
    def max_context(self) -> int | None:
        """Longest single sequence that fits, in tokens, by the budget of that very length; None if nothing limits it.

        What the engine states, by the one budget that it started with, is in `own`.
        """
        stated = 0 if self._overfilled else self.own.max_context
        found = stated if self._settled(stated) else longest_alone(self.request, stated)
        return None if found >= LONGEST else found

    def _settled(self, tokens: int) -> bool:
        """Whether the engine's answer for its one budget also holds at `tokens`, because both leave the same cache."""
        if not self.request.engine.allocates:
            return False
        left = self.request.decide(self.started.budget_at(max(tokens, 1)).kv)
        return left == self.request.decide(self.budget.kv) if self.fits else not tokens and left <= 0

    @property
    def _overfilled(self) -> bool:
        """Whether the cache asked for is larger than the GPU's memory."""
        return isinstance(self.outcome, NoFit) and self.outcome.binding == "pool"

    @property
    def fits(self) -> bool:
        """Whether it fits."""
        return isinstance(self.outcome, Fit)


def fit(request: Request) -> Plan:
    """Plan the request: budget, both capacities, verdict, and the time of a decode step.

    The engine is first asked whether it serves the model there; a model that it doesn't serve has no budget to exceed.

    Raises: CannotSplit for a layout that the model can't be split into; UsageError if the weights are unknown;
    Unsupported and whatever else Engine.start raises.
    """
    curves = request.setup.curves(request.kv_format)
    _check_weights(request)
    started = request.engine.start(request.setup)
    return _decided(request, started, started.budget(), curves)


def by_end(plan: Plan, end: End) -> Plan:
    """The same plan decided by another end of its budget. The cache isn't laid out again."""
    request, started = replace(plan.request, end=end), plan.started
    return _decided(request, started, plan.budget, started.setup.curves(started.kv))


def _decided(request: Request, started: Started, budget: Budget, curves: tuple[Curve, ...]) -> Plan:
    kv_bytes, context = request.decide(budget.kv), request.context
    own: Capacity | Refusal
    if kv_bytes > 0:
        own = _past_table(request, started, kv_bytes) or started.capacity(kv_bytes)
    else:
        need = max(curve.bytes_at(context) for curve in curves)
        own = Refusal("weights", _no_room(budget, request), need, max_context=0)
    batch = request.batch or _full_batch(own)
    return Plan(
        request=request,
        started=started,
        budget=budget,
        kv_bytes=kv_bytes,
        outcome=_too_much(request, budget) or _judge(request, started, kv_bytes, own),
        ideal=formula(curves, request.parallel.dp, context, kv_bytes),
        own=own,
        decode=None if batch is None else decode(request, started.kv, batch),
    )


def _full_batch(own: Capacity | Refusal) -> int | None:
    """As many sequences as fit, None if none does. 1 for a model that keeps nothing, which has no limit."""
    if isinstance(own, Refusal) or own.max_sequences == 0:
        return None
    return own.max_sequences if own.max_sequences < LONGEST else 1


def _check_weights(request: Request) -> None:
    """Refuse to plan with weights that are known only in part, small parts aside.

    Raises: UsageError.
    """
    weights, options = request.model.weights, request.options
    if weights is None or weights.whole or options.weights_per_gpu is not None or options.kv_memory is not None:
        return
    large = [part for part in weights.missing if not part.startswith(SMALL_PARTS)]
    if large:
        raise UsageError(
            f"{request.model.origin.id}'s weights can only be counted in part",
            cause="not derived from its config: " + "; ".join(large),
            hint="give --weights 140GB (all checkpoint files together), or --kv-memory 40GiB (only the cache, per GPU)",
        )


def _past_table(request: Request, started: Started, kv_bytes: int) -> Refusal | None:
    """The refusal for a sequence longer than the model's position table, which no memory helps."""
    excess = started.excess
    if excess is None or excess.said is None:
        return None
    end = excess.longest
    within = request.engine.start(replace(request.setup, context=end)).capacity(kv_bytes)
    return Refusal("longest_request", excess.said, kv_bytes, min(within.max_context, end))


def _too_much(request: Request, budget: Budget) -> NoFit | None:
    """The refusal for a cache size given by hand that the GPU has no room for."""
    short = beyond_memory(request, budget)
    if not short or request.options.kv_memory is None:
        return None
    certain = "up to" if request.end == "safe" else "about"
    reason = (
        f"a cache of {format_bytes(request.options.kv_memory)} beside {certain} {format_bytes(spent(request, budget))} of "
        f"weights and overhead is more than the {format_bytes(request.decide(budget.memory.bytes))} that a GPU shows"
    )
    return NoFit("pool", short, reason)


def _judge(request: Request, started: Started, kv_bytes: int, own: Capacity | Refusal) -> Fit | NoFit:
    if isinstance(own, Refusal):
        return NoFit(own.binding, own.needed_bytes - kv_bytes, own.message)
    if not own.max_sequences:
        return _not_one(request, own, started.reserved())
    wanted = request.concurrency
    if wanted is not None and own.max_sequences < wanted:
        if own.binding == "max_num_seqs":
            reason = f"the engine admits {own.max_sequences:,} sequences at once, not {wanted:,}"
            return NoFit("max_num_seqs", 0, reason)
        return _too_many(request, own, wanted, started.reserved())
    return Fit(own.binding, own.max_sequences)


def _not_one(request: Request, own: Capacity, each: int) -> NoFit:
    """The engine starts, but its cache can't hold one request of the length. each: its bytes on the fullest GPU."""
    title = request.engine.words.title
    reason = (
        f"{title} starts, but a request of {request.context:,} tokens would wait for ever: it takes {format_bytes(each)} of a "
        f"cache of {format_bytes(own.kv_bytes)}; {longest_alone(request, own.max_context):,} tokens would run"
    )
    return NoFit("longest_request", max(1, each - own.kv_bytes), reason)


def _too_many(request: Request, own: Capacity, wanted: int, each: int) -> NoFit:
    """Fewer sequences fit than wanted. each: bytes of one on the fullest GPU."""
    on_one = -(-wanted // request.parallel.dp)
    reason = f"{own.max_sequences:,} sequences of {request.context:,} tokens fit at once, not {wanted:,}"
    return NoFit("concurrency", max(1, on_one * each - own.kv_bytes), reason)


def _no_room(budget: Budget, request: Request) -> str:
    usable, weights = request.decide(budget.usable.bytes), budget.weights.bytes.likely
    if weights > usable:
        return f"its weights take {format_bytes(weights)} of a GPU's {format_bytes(usable)}"
    taken = format_bytes(usable - request.decide(budget.kv))
    return f"weights and overhead take {taken} of a GPU's {format_bytes(usable)}, nothing is left for the cache"
