"""From the flags of a command line to the arguments of the API, the same for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.cli import options as o
from kvplan.cli.option import Option, Values
from kvplan.engines.base import Options
from kvplan.errors import CannotSplit, UsageError
from kvplan.plan.request import NO_FLAGS, End

if TYPE_CHECKING:
    from kvplan.hardware.gpu import Gpu


def model(name: str, values: Values) -> Model:
    """The model asked for.

    Raises: UnknownName, ConfigError, SourceError.
    """
    from kvplan import api

    return api.load_model(name, revision=values.get(o.REVISION), offline=values.on(o.OFFLINE))


def weighed(name: str, values: Values) -> Model:
    """The model asked for, with weights by its checkpoint's own headers, unless a flag replaces the weights.

    Raises: UnknownName, ConfigError, SourceError.
    """
    found = model(name, values)
    if values.was_given(o.WEIGHT_DTYPE) or values.get(o.WEIGHTS) is not None:
        return found
    return _by_headers(found, values)


def _by_headers(found: Model, values: Values) -> Model:
    if found.origin.bundled:
        return found
    from kvplan.api import weigh
    from kvplan.cli.progress import Progress

    with Progress() as progress:
        return weigh(found, offline=values.on(o.OFFLINE), progress=progress.files)


def parallel(values: Values, count: int | None = None) -> Parallel:
    """The parallel sizes. On `count` GPUs the tensor size, unless it is given, takes what the others leave.

    Raises: UsageError; CannotSplit when the sizes don't make that number of GPUs.
    """
    tp, pp, dp, ep, dcp = (values.get(option) or 1 for option in o.PARALLEL)
    if count is not None and tp * pp * dp != count:
        if values.was_given(o.TP) or count % (pp * dp):
            raise CannotSplit(
                f"tp {tp} x pp {pp} x dp {dp} is {tp * pp * dp} GPUs, not {count}",
                hint=f"leave the number of GPUs out, or choose sizes whose product is {count}",
            )
        tp = count // (pp * dp)
    return Parallel(tp, pp, dp, ep, dcp)


def gpu(values: Values) -> tuple[Gpu, int | None]:
    """The GPU with the facts given for it, and the number asked for; None if none is.

    Raises: UsageError, UnknownName.
    """
    from kvplan.hardware.gpu import overrides
    from kvplan.sources.gpus import AUTO, parse_gpu

    name = values.get(o.GPU)
    if name is None:
        raise UsageError(
            "which GPU?",
            cause="a plan needs a GPU",
            hint="add --gpu h100, --gpu h100x8, or --gpu auto for this machine's",
        )
    known, count = parse_gpu(name)
    if name.strip().lower() == AUTO and values.was_given(o.TP):
        count = None
    return overrides(known, memory=values.get(o.GPU_MEMORY), bandwidth=values.get(o.GPU_BANDWIDTH)), count


class Hardware(NamedTuple):
    """The GPU, and the layout over as many as were asked for. counted: whether they were named with a number, as in h100x8."""

    gpu: Gpu
    parallel: Parallel
    counted: bool


def hardware(values: Values) -> Hardware:
    """What the plan runs on.

    Raises: UsageError, UnknownName, CannotSplit.
    """
    known, count = gpu(values)
    return Hardware(known, parallel(values, count), count is not None)


def end(values: Values) -> End:
    """The end of an uncertain budget that decides.

    Raises: UsageError.
    """
    return "likely" if _either(values, o.SAFE, o.LIKELY) is False else "safe"


def engine_options(values: Values) -> Options:
    """The engine's own flags."""
    return Options(
        utilization=values.get(o.UTILIZATION),
        kv_memory=values.get(o.KV_MEMORY),
        overhead=values.get(o.OVERHEAD),
        block_size=values.get(o.BLOCK_SIZE),
        max_num_batched_tokens=values.get(o.MAX_NUM_BATCHED_TOKENS),
        max_num_seqs=values.get(o.MAX_NUM_SEQS),
        prefix_caching=_either(values, o.ENABLE_PREFIX_CACHING, o.NO_PREFIX_CACHING),
        graphs=not values.on(o.ENFORCE_EAGER),
        async_scheduling=not values.on(o.NO_ASYNC_SCHEDULING),
        hybrid_manager=not values.on(o.NO_HYBRID),
        speculative_tokens=values.get(o.SPECULATIVE_TOKENS) or 0,
        max_loras=_loras(values),
        max_lora_rank=values.get(o.MAX_LORA_RANK) or NO_FLAGS.max_lora_rank,
        lora_targets=values.get(o.LORA_TARGETS),
        language_model_only=values.on(o.LANGUAGE_MODEL_ONLY),
    )


def _either(values: Values, yes: Option[bool], no: Option[bool]) -> bool | None:
    """Which of two opposite switches is on; None for neither. A flag overrides the environment and files.

    Raises: UsageError.
    """
    on = values.on(yes) and not values.beaten(yes, no)
    off = values.on(no) and not values.beaten(no, yes)
    if on and off:
        raise UsageError(f"{yes.flag} and {no.flag} can't be combined", hint="leave one of them out")
    return on if on or off else None


def _loras(values: Values) -> int:
    """Adapters at once; 1 if only their rank or targets are given."""
    given = values.get(o.MAX_LORAS)
    if given is not None:
        return given
    return 1 if values.get(o.MAX_LORA_RANK) is not None or values.get(o.LORA_TARGETS) is not None else 0


def draft(values: Values) -> Model | None:
    """The draft model if one is asked for, with weights by its checkpoint's own headers.

    Raises: UnknownName, ConfigError, SourceError.
    """
    name = values.get(o.DRAFT)
    if name is None:
        return None
    from kvplan import api

    return _by_headers(api.load_model(name, offline=values.on(o.OFFLINE)), values)
