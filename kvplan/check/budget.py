"""What a budget file says once it is read: deployments, each with the limits it must keep and where every value stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Stated
from kvplan.errors import Problem
from kvplan.manifests.accelerators import Device
from kvplan.manifests.keys import Drafting
from kvplan.manifests.said import Place, Remark, Unread
from kvplan.report.schema.check import End, Level

Unit = Literal["bytes", "tokens", "sequences", "seconds", "gpus", "share"]

ENDS: tuple[End, ...] = ("safe", "likely", "ideal")


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound. metric: a name of kvplan.check.metrics. bound: in `unit`, an integer except for seconds and shares.

    at: tokens of a sequence, None for the deployment's own context. batch: sequences of the timed step.
    own: whether it stands in the deployment itself, not in something it inherits from.
    """

    metric: str
    bound: float
    unit: Unit
    place: Place
    end: End = "safe"
    level: Level = "error"
    at: int | None = None
    batch: int | None = None
    own: bool = True


@dataclass(frozen=True, slots=True)
class Starts:
    """The rule that the engine would start, with room for one sequence of its context: by which end, and how grave."""

    end: End = "safe"
    level: Level = "error"


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a plan depends on, as written: names not yet looked up.

    model: what `kvplan size` takes; a path is absolute. context: the engine's longest sequence, None for the model's own.
    tokens: of the sequences that are counted, None for `context`. batch: sequences of the timed step.
    kv_dtype: `auto` or a format. concurrency: sequences that headroom is left beside. draft: a model that drafts for it.
    drafting: how tokens are drafted, where a serve command says so. stretched: whether the context may be longer than the
    model's own maximum. overridden: whether parts of the model's config are replaced. quantization, dtype: what a serve
    command says of the checkpoint. devices: what a manifest says of its accelerator. experts: whether expert parallelism is switched on, on however many ranks.
    """

    model: str
    gpu: str
    engine: str = "vllm"
    revision: str | None = None
    gpu_memory: int | None = None
    parallel: Parallel = field(default_factory=Parallel)
    context: int | None = None
    kv_dtype: str = "auto"
    options: Options = field(default_factory=Options)
    concurrency: int = 1
    tokens: int | None = None
    batch: int | None = None
    draft: str | None = None
    drafting: Drafting | None = None
    stretched: bool = False
    overridden: bool = False
    quantization: str | None = None
    dtype: str | None = None
    experts: bool = False
    devices: tuple[Device, ...] = ()

    @property
    def stated(self) -> Stated:
        """What is said of the checkpoint beside its config."""
        return Stated(self.quantization, self.dtype, self.overridden, self.drafting == "itself")


@dataclass(frozen=True, slots=True)
class Deployment:
    """One thing to plan. place: of its name. places: of each of its values, by dotted key (`parallel.tp`).

    written: those values as text, so that two versions of a deployment can be told apart key by key.
    """

    name: str
    question: Question
    place: Place
    limits: tuple[Limit, ...] = ()
    starts: Starts = field(default_factory=Starts)
    places: Mapping[str, Place] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a file gave.

    models: what a budget says that names in serve commands stand for, with the file's name. faults: what is wrong with
    deployments that are missing here, each with its place.
    """

    deployments: tuple[Deployment, ...] = ()
    unread: tuple[Unread, ...] = ()
    models: Mapping[str, tuple[str, Place]] = field(default_factory=dict)
    faults: tuple[tuple[Place, Problem], ...] = ()
