"""The question that a plan answers: model, GPUs, parallel sizes, cache format and length of requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Range, Setup

if TYPE_CHECKING:
    from kvplan.engines.protocol import Engine
    from kvplan.hardware.gpu import Gpu
    from kvplan.plan.calibration import Calibration

End = Literal["safe", "likely"]

DEFAULT_ENGINE = "vllm"
"""The engine whose rules decide unless another one is asked for."""

ONE_GPU = Parallel()
NO_FLAGS = Options()


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a plan depends on.

    kv: the format asked for, None for auto. context: tokens of one sequence, prompt and output together. concurrency:
    sequences that must be admitted at once, None to ask how many can be. batch: sequences of the timed decode step,
    None for as many as fit. end: the end of an uncertain budget that decides. calibration: measurements for the likely
    time of a step, ignored on another GPU.
    """

    model: Model
    gpu: Gpu
    engine: Engine
    context: int
    parallel: Parallel = ONE_GPU
    kv: KvFormat | None = None
    options: Options = NO_FLAGS
    concurrency: int | None = None
    batch: int | None = None
    end: End = "safe"
    calibration: Calibration | None = None

    @property
    def setup(self) -> Setup:
        """The engine's side of the request."""
        return Setup(self.model, self.gpu, self.parallel, self.kv, self.options, self.context)

    @property
    def kv_format(self) -> KvFormat:
        """The cache format that the engine uses."""
        return self.engine.kv_format(self.model, self.kv, self.gpu)

    def decide(self, size: Range) -> int:
        """The end of an uncertain amount of memory that the plan counts on."""
        return size.low if self.end == "safe" else size.likely
