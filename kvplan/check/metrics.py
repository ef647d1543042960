"""What can be limited, as a table: the name in a budget, what is compared, in which direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvplan.check.budget import Unit

STARTS = "starts"
"""The rule every deployment is held to: at least one sequence of its context fits."""


@dataclass(frozen=True, slots=True)
class Metric:
    """limit: the key under `limits`. number: what of a plan it bounds. side: whether the bound is the most or the least.

    at, timed: whether a limit may name a length, and a batch. about: a sentence for schemas and reports.
    """

    limit: str
    number: str
    side: Literal["most", "least"]
    unit: Unit
    about: str
    at: bool = False
    timed: bool = False

    @property
    def rule(self) -> str:
        """Its stable name in SARIF, JUnit and annotations: `kv-per-token`."""
        return self.limit.replace("_", "-")

    def keeps(self, actual: float, bound: float) -> bool:
        """Whether the number stays within the bound."""
        return actual <= bound if self.side == "most" else actual >= bound


METRICS: dict[str, Metric] = {
    metric.limit: metric
    for metric in (
        Metric("kv_per_token", "kv_per_token", "most", "bytes",
               "Cache bytes of one sequence divided by its tokens, all GPUs of one replica together.", at=True),
        Metric("kv_per_sequence", "kv_per_sequence", "most", "bytes",
               "Cache bytes of one sequence, all GPUs of one replica together.", at=True),
        Metric("weights", "weights", "most", "bytes", "Bytes of weights on the fullest GPU."),
        Metric("min_sequences", "max_sequences", "least", "sequences",
               "Sequences that are admitted at once, by all replicas together.", at=True),
        Metric("min_context", "max_context", "least", "tokens", "Tokens of the longest single sequence that fits."),
        Metric("max_tpot", "tpot", "most", "seconds",
               "Time of one decode step, which is the time between two tokens of a sequence.", at=True, timed=True),
        Metric("max_gpus", "gpus", "most", "gpus", "GPUs that the deployment takes: TP x PP x DP."),
        Metric("headroom", "headroom", "least", "bytes",
               "Cache memory of the fullest GPU left free once `concurrency` sequences are held; "
               "bytes, or a share of the cache memory."),
    )
}  # fmt: skip

NUMBERS: tuple[str, ...] = (*dict.fromkeys(metric.number for metric in METRICS.values()), "kv_memory")
"""Names of a plan's numbers, in the order of reports and locks. kv_memory: cache bytes of the fullest GPU."""

UNITS: dict[str, Unit] = {metric.number: metric.unit for metric in METRICS.values()} | {"kv_memory": "bytes"}

UNLIMITED = frozenset({"max_context"})
"""Numbers of which null means that nothing limits them."""
