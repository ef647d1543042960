"""What a budget file says once it is read: deployments, each with the limits it must keep and where every value stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Stated
from kvplan.errors import Problem
from kvplan.manifests.devices.accelerators import Device
from kvplan.manifests.keys import Drafting
from kvplan.manifests.places import Place, Remark, Unread
from kvplan.report.schema.check import End, Level

Unit = Literal["bytes", "tokens", "sequences", "seconds", "gpus", "share"]

ENDS: tuple[End, ...] = ("safe", "likely", "ideal")


class Fault(NamedTuple):
    """What is wrong with a file, and where. deployment: the one that it keeps from being planned; None where it keeps all."""

    place: Place
    problem: Problem
    deployment: str | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound. metric: a name of kvplan.check.results.metrics. bound: in `unit`, an integer except for seconds and shares.

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
    """Everything that a plan depends on, as written: names not yet looked up."""

    model: str
    """What `kvplan size` takes; a path is absolute."""
    gpu: str
    """A GPU's name, or a path of its description."""
    engine: str = "vllm"
    """A name, or `vllm@0.33`."""
    revision: str | None = None
    """Of the model's repository on the Hub, None for its main branch."""
    gpu_memory: int | None = None
    """Bytes of the GPU instead of its own."""
    parallel: Parallel = field(default_factory=Parallel)
    """How many GPUs share the model, and how."""
    context: int | None = None
    """Tokens of the engine's longest sequence, None for the model's own."""
    kv_dtype: str = "auto"
    """`auto` or a format."""
    options: Options = field(default_factory=Options)
    """The engine's own flags."""
    concurrency: int = 1
    """Sequences that headroom is left beside."""
    tokens: int | None = None
    """Tokens of the sequences that are counted, None for `context`."""
    batch: int | None = None
    """Sequences of the timed step."""
    draft: str | None = None
    """A model that drafts for it."""
    drafting: Drafting | None = None
    """How tokens are drafted, where a serve command says so."""
    stretched: bool = False
    """Whether the context may be longer than the model's own maximum."""
    overridden: bool = False
    """Whether parts of the model's config are replaced."""
    quantization: str | None = None
    """What a serve command says of how the checkpoint is quantized."""
    dtype: str | None = None
    """What a serve command says of the checkpoint's dtype."""
    experts: bool = False
    """Whether expert parallelism is switched on, on however many ranks."""
    devices: tuple[Device, ...] = ()
    """What a manifest says of its accelerator."""

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
    deployments that are missing here.
    """

    deployments: tuple[Deployment, ...] = ()
    unread: tuple[Unread, ...] = ()
    models: Mapping[str, tuple[str, Place]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
