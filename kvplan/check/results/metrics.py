"""What can be limited, as a table: the name in a budget, what is compared, in which direction, and how a plan gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvplan.check.budgets.budget import Unit

if TYPE_CHECKING:
    from kvplan.check.plans.work import Work
    from kvplan.report.schema.check import Three

STARTS = "starts"
"""The rule every deployment is held to: at least one sequence of its context fits."""

Side = Literal["most", "least"]
_KEYS: dict[Side, str] = {"most": "max", "least": "min"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number that every plan has. number: its name in reports and locks. of: how a question's work gives it.

    endless: whether null means that nothing limits it.
    """

    number: str
    unit: Unit
    of: Callable[[Work], Three]
    endless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Number):
    """A number that budgets limit. limit: the key under `limits`. side: whether a bound is the most or the least.

    at, timed: whether a limit may name a length, and a batch. about: a sentence for schemas and reports.
    """

    limit: str
    side: Side
    about: str
    at: bool = False
    timed: bool = False

    @property
    def rule(self) -> str:
        """Its stable name in SARIF, JUnit and annotations: `kv-per-token`."""
        return self.limit.replace("_", "-")

    @property
    def key(self) -> str:
        """The key of a bound: `max` or `min`."""
        return _KEYS[self.side]

    def keeps(self, actual: float, bound: float) -> bool:
        """Whether the number stays within the bound."""
        return actual <= bound if self.side == "most" else actual >= bound


METRICS: dict[str, Metric] = {
    metric.limit: metric
    for metric in (
        Metric(
            limit="kv_per_token", number="kv_per_token", side="most", unit="bytes", at=True,
            of=lambda work: work.per_token(),
            about="Cache bytes of one sequence divided by its tokens, all GPUs of one replica together.",
        ),
        Metric(
            limit="kv_per_sequence", number="kv_per_sequence", side="most", unit="bytes", at=True,
            of=lambda work: work.per_sequence(),
            about="Cache bytes of one sequence, all GPUs of one replica together.",
        ),
        Metric(
            limit="weights", number="weights", side="most", unit="bytes", of=lambda work: work.weights(),
            about="Bytes of weights on the fullest GPU.",
        ),
        Metric(
            limit="min_sequences", number="max_sequences", side="least", unit="sequences", at=True,
            of=lambda work: work.sequences(), about="Sequences that are admitted at once, by all replicas together.",
        ),
        Metric(
            limit="min_context", number="max_context", side="least", unit="tokens", endless=True,
            of=lambda work: work.longest(), about="Tokens of the longest single sequence that fits.",
        ),
        Metric(
            limit="max_tpot", number="tpot", side="most", unit="seconds", at=True, timed=True,
            of=lambda work: work.step(),
            about="Time of one decode step, which is the time between two tokens of a sequence.",
        ),
        Metric(
            limit="max_gpus", number="gpus", side="most", unit="gpus", of=lambda work: work.gpus(),
            about="GPUs that the deployment takes: TP x PP x DP.",
        ),
        Metric(
            limit="headroom", number="headroom", side="least", unit="bytes", of=lambda work: work.headroom(),
            about="Cache memory of the fullest GPU left free once `concurrency` sequences are held; "
            "bytes, or a share of the cache memory.",
        ),
    )
}  # fmt: skip

KV_MEMORY = Number(number="kv_memory", unit="bytes", of=lambda work: work.kv_memory())
"""Cache bytes of the fullest GPU."""

NUMBERS: dict[str, Number] = {each.number: each for each in (*METRICS.values(), KV_MEMORY)}
"""A plan's numbers by their names, in the order of reports and locks."""
