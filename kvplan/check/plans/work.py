"""One question of a budget on its way to numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from kvplan.check.budgets.budget import ENDS, Question
from kvplan.check.plans.reasons import short
from kvplan.check.results.metrics import NUMBERS
from kvplan.engines.base import Capacity, Refusal
from kvplan.engines.ideal import Ideal
from kvplan.plan.fit import NoFit, Plan, by_end, fit
from kvplan.plan.request import Request
from kvplan.report.schema.check import End, Three

if TYPE_CHECKING:
    from kvplan.engines.protocol import Started
    from kvplan.plan.roofline import Decode


def _plans(request: Request) -> dict[Literal["safe", "likely"], Plan]:
    """The plan of `kvplan fit` by both ends of its budget."""
    safe = fit(replace(request, end="safe"))
    same = safe.budget.kv.low == safe.budget.kv.likely
    return {"safe": safe, "likely": safe if same else by_end(safe, "likely")}


class Work:
    """One question on its way to numbers. kv_bytes: cache memory of the fullest GPU by each end."""

    def __init__(self, request: Request, question: Question) -> None:
        self.request = request
        self.question = question
        self.plans = _plans(request)
        self.budget = self.plans["safe"].budget
        self.kv = self.plans["safe"].kv
        kv = self.budget.kv
        self.kv_bytes: dict[End, int] = {"safe": kv.low, "likely": kv.likely, "ideal": kv.likely}
        ideal = self.formula(request.context).capacity(kv.likely)
        self.starting: dict[End, Capacity | Refusal] = {
            "safe": self.plans["safe"].own,
            "likely": self.plans["likely"].own,
            "ideal": ideal,
        }

    def reason(self, end: End) -> str | None:
        """Why it wouldn't start by an end; None where it would."""
        own = self.starting[end]
        if isinstance(own, Refusal):
            longest = own.max_context if end == "ideal" else self.plans[end].max_context
            return short(own, self.kv_bytes[end], longest)
        outcome = None if end == "ideal" else self.plans[end].outcome
        return outcome.reason if isinstance(outcome, NoFit) else None

    def started(self, tokens: int) -> Started:
        """The engine, for sequences of `tokens`."""
        if tokens == self.request.context:
            return self.plans["safe"].started
        return self.request.engine.start(replace(self.request.setup, context=tokens))

    def formula(self, tokens: int) -> Started:
        """The formula, for sequences of `tokens` in the engine's cache format."""
        return Ideal().start(replace(self.request.setup, kv=self.kv, context=tokens))

    def at_its_longest(self) -> Work:
        """The same with the context that the engine would choose: the longest that fits."""
        safe = self.starting["safe"]
        if isinstance(safe, Capacity) or not safe.max_context:
            return self
        return Work(replace(self.request, context=safe.max_context), self.question)

    def capacities(self, tokens: int) -> dict[End, Capacity | Refusal]:
        """What each end's memory admits of sequences of `tokens`."""
        kv_bytes, started = self.kv_bytes, self.started(tokens)
        safe = started.capacity(kv_bytes["safe"])
        likely = safe if kv_bytes["likely"] == kv_bytes["safe"] else started.capacity(kv_bytes["likely"])
        return {"safe": safe, "likely": likely, "ideal": self.formula(tokens).capacity(kv_bytes["ideal"])}

    def numbers(self) -> dict[str, Three]:
        """Every number of kvplan.check.results.metrics."""
        return {name: number.of(self) for name, number in NUMBERS.items()}

    @cached_property
    def tokens(self) -> int:
        """Tokens of the sequences that are counted."""
        return self.question.tokens or self.request.context

    @cached_property
    def counted(self) -> dict[End, Capacity | Refusal]:
        """What each end's memory admits of them."""
        return self.starting if self.tokens == self.request.context else self.capacities(self.tokens)

    @cached_property
    def sequence(self) -> tuple[int, int]:
        """Bytes of one of them on the fullest GPU: the engine's, and the formula's."""
        return self.on_gpu(self.tokens)

    @cached_property
    def replica(self) -> tuple[int, int]:
        """Bytes of one of them on all GPUs of one replica: the engine's, and the formula's."""
        request = self.request
        layers = (*request.model.layers, *request.setup.drafting)
        engine = self.sequence[0] * request.parallel.tp * request.parallel.pp
        return engine, request.model.curve(self.kv, layers=layers).bytes_at(self.tokens)

    def per_token(self) -> Three:
        """Cache bytes of a sequence of one replica for each of its tokens."""
        engine, formula = (-(-size // self.tokens) for size in self.replica)
        return Three(engine, engine, formula)

    def per_sequence(self) -> Three:
        """Cache bytes of a sequence of one replica."""
        engine, formula = self.replica
        return Three(engine, engine, formula)

    def weights(self) -> Three:
        """Bytes of weights on the fullest GPU."""
        weights = self.budget.weights.bytes
        return Three(weights.high, weights.likely, weights.likely)

    def sequences(self) -> Three:
        """Sequences that are admitted at once."""
        return Three(*(_sequences(self.counted[end]) for end in ENDS))

    def gpus(self) -> Three:
        """GPUs of all replicas."""
        return Three.exactly(self.request.parallel.gpus)

    def kv_memory(self) -> Three:
        """Cache bytes of the fullest GPU."""
        return Three(*(self.kv_bytes[end] for end in ENDS))

    def on_gpu(self, tokens: int) -> tuple[int, int]:
        """Bytes of one sequence on the fullest GPU: the engine's, and the formula's."""
        return self.started(tokens).reserved(), self.formula(tokens).reserved()

    def longest(self) -> Three:
        """Tokens of the longest sequence; None where nothing limits them."""
        from kvplan.arch.curve import LONGEST

        ideal = self.starting["ideal"].max_context
        safe, likely = (self.plans[end].max_context for end in ("safe", "likely"))
        return Three(safe, likely, None if ideal >= LONGEST else ideal)

    def step(self) -> Three:
        """Seconds of a decode step: the estimate by each end's batch, and the datasheet's bound of the safe one as the ideal."""
        batches = {end: self.question.batch or _sequences(self.counted[end]) for end in ENDS[:2]}
        timed = {batch: self._decode(batch) for batch in set(batches.values())}
        safe, likely = timed[batches["safe"]], timed[batches["likely"]]
        return Three(
            None if safe is None else safe.step_s_likely,
            None if likely is None else likely.step_s_likely,
            None if safe is None else safe.step_s_low,
        )

    def _decode(self, batch: int) -> Decode | None:
        """The step of a batch; None for an empty one, and where nothing is known of it."""
        from kvplan.plan.roofline import decode

        return decode(replace(self.request, context=self.tokens), self.kv, batch) if batch else None

    def headroom(self) -> Three:
        """Cache bytes of the fullest GPU that are left when `concurrency` sequences of the context are held."""
        same = self.tokens == self.request.context
        engine_gpu, ideal_gpu = self.sequence if same else self.on_gpu(self.request.context)
        held = -(-self.question.concurrency // self.request.parallel.dp)
        return Three(
            self.kv_bytes["safe"] - held * engine_gpu,
            self.kv_bytes["likely"] - held * engine_gpu,
            self.kv_bytes["ideal"] - held * ideal_gpu,
        )


def _sequences(found: Capacity | Refusal) -> int:
    return found.max_sequences if isinstance(found, Capacity) else 0
